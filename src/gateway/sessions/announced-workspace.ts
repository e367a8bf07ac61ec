import type { Config } from '../../config/schema/schema.ts';
import { AmbitError } from '../../errors.ts';
import type { Principal } from '../../identity/principal.ts';
import { type Announced, announcedBy, contradictory } from '../../protocol/client-selection.ts';
import type { Message } from '../../protocol/message.ts';
import { slugsNamed } from './named-workspace.ts';

/** What a request announces, by the keys that are configured now; throws when it announces more than one. */
export type ReadAnnounced = (message: Message) => string | undefined;

export function createReadAnnounced(config: () => Config): ReadAnnounced {
  let keys: readonly string[] = [];
  let read: (message: Message) => Announced = () => undefined;
  return function announced(message) {
    if (message.meta === undefined) return undefined;
    const { announceKeys } = config().context;
    if (announceKeys !== keys) {
      keys = announceKeys;
      read = announcedBy(announceKeys);
    }
    const asked = read(message);
    if (asked !== contradictory) return asked;
    throw new AmbitError('REQUEST_INVALID', {
      what: 'The request announces more than one workspace.',
      hint: 'Announce one workspace, in one way.',
    });
  };
}

/**
 * Where a session for this caller is to be opened: for a credential that may use only some workspaces the one that is
 * announced, else the first of them. Any other caller's session stands nowhere, and may be used in each.
 */
export function createWorkspaceMeant(
  config: () => Config,
): (principal: Principal, message: Message) => string | undefined {
  const announced = createReadAnnounced(config);
  return function workspaceMeant(principal, message) {
    const { workspaces: allowed = null, directIn } = principal.kind === 'user' ? principal.ceiling : {};
    if (allowed === null && directIn === undefined) return undefined;
    const asked = announced(message);
    // Where it may have more trust than elsewhere, its session has to stand there.
    if (allowed === null) return slugsNamed(config(), asked ?? '').find((slug) => directIn?.includes(slug));
    if (asked === undefined) return allowed[0];
    const meant = slugsNamed(config(), asked).find((slug) => allowed.includes(slug));
    if (meant === undefined) throw notAdmitted(asked.slice(0, 100));
    return meant;
  };
}

/** To the agent, a workspace it may not use and one that is not there look alike. */
export function notAdmitted(shown: string): AmbitError {
  return new AmbitError('WORKSPACE_NOT_FOUND', {
    what: `No workspace "${shown}" is available to this session.`,
    hint: 'Announce the slug or the absolute path of a workspace that this session may use, or announce none.',
  });
}
