/** The revisions that state which scenarios they require. */
export type Revision = '2026-07-28' | '2025-11-25';

/** A scenario that cannot pass in a cell where client and upstream are of different eras, and why. */
export interface CannotPass {
  readonly scenario: string;
  readonly reason: string;
}

const undeclared =
  'The suite wants error −32021 for a capability the client has not declared. A server of the handshake era has no such error: it refuses in its own words, as a tool error, and Ambit passes that on.';
const key =
  'The suite looks for the key "user_name" in inputRequests. A server of the handshake era asks by a request of its own, which has no such key: Ambit gives the question a key of its making.';
/** By the revision the client speaks; the upstream is of the other era. */
export const cannotPass: Readonly<Record<Revision, readonly CannotPass[]>> = {
  '2026-07-28': [
    { scenario: 'server-stateless', reason: undeclared },
    { scenario: 'input-required-result-basic-elicitation', reason: key },
  ],
  '2025-11-25': [],
};

/** The scenarios that ask for no tool, prompt or reference by name: at the address of all servers they must pass as they are. */
export const namesNothing: Readonly<Record<Revision, readonly string[]>> = {
  '2026-07-28': [
    'tools-list',
    'server-sse-multiple-streams',
    'resources-list',
    'resources-read-text',
    'resources-read-binary',
    'resources-templates-read',
    'sep-2164-resource-not-found',
    'prompts-list',
    'dns-rebinding-protection',
    'caching',
    'input-required-result-unsupported-methods',
  ],
  '2025-11-25': [
    'server-initialize',
    'logging-set-level',
    'ping',
    'tools-list',
    'server-sse-multiple-streams',
    'resources-list',
    'resources-read-text',
    'resources-read-binary',
    'resources-templates-read',
    'resources-subscribe',
    'resources-unsubscribe',
    'prompts-list',
    'dns-rebinding-protection',
  ],
};
