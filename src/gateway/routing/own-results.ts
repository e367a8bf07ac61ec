import { handshakeVersions, modernVersion } from '../../protocol/versions.ts';

const capabilities = {
  tools: { listChanged: true },
  prompts: { listChanged: true },
  resources: { listChanged: true, subscribe: true },
  completions: {},
  logging: {},
};
const serverInfo = { name: 'ambit', title: 'Ambit', version: '0.1.0' };
const instructions =
  'Several servers as one. Tools and prompts are named server__name. A server that cannot be reached is left out of the lists.';

const ownToolsToo = 'Tools named session_… are Ambit’s own.';
const ownInstructions =
  'Ambit’s own tools. Every one takes "session": the id of a session, a unique name or prefix of it, or "current", the default.';

interface Said {
  readonly capabilities: object;
  readonly instructions: string;
}
const ofAll: Said = { capabilities, instructions: `${instructions} ${ownToolsToo}` };
const ofOwn: Said = { capabilities: { tools: { listChanged: true } }, instructions: ownInstructions };

/** What Ambit says of itself where it stands for all its servers. */
export const discoverAll = () => discover(ofAll);
export const initializeAll = (requested: string | undefined) => initialize(ofAll, requested);
/** What it says where only its own tools are. */
export const discoverOwn = () => discover(ofOwn);
export const initializeOwn = (requested: string | undefined) => initialize(ofOwn, requested);

function discover(said: Said): string {
  return JSON.stringify({
    resultType: 'complete',
    supportedVersions: [modernVersion],
    ...said,
    ttlMs: 60_000,
    cacheScope: 'private',
    _meta: { 'io.modelcontextprotocol/serverInfo': serverInfo },
  });
}

function initialize(
  { capabilities: offered, instructions: words }: Said,
  requested: string | undefined,
): { readonly version: string; readonly result: string } {
  const known = requested !== undefined && handshakeVersions.includes(requested);
  const version = known ? requested : (handshakeVersions[0] as string);
  const result = { protocolVersion: version, capabilities: offered, serverInfo, instructions: words };
  return { version, result: JSON.stringify(result) };
}
