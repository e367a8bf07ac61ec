import { handshakeVersions, modernVersion } from '../../wire/versions.ts';

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

/** What Ambit says of itself where it stands for all its servers. */
export function discoverAll(): string {
  return JSON.stringify({
    resultType: 'complete',
    supportedVersions: [modernVersion],
    capabilities,
    instructions,
    ttlMs: 60_000,
    cacheScope: 'private',
    _meta: { 'io.modelcontextprotocol/serverInfo': serverInfo },
  });
}

export function initializeAll(requested: string | undefined): { readonly version: string; readonly result: string } {
  const known = requested !== undefined && handshakeVersions.includes(requested);
  const version = known ? requested : (handshakeVersions[0] as string);
  return { version, result: JSON.stringify({ protocolVersion: version, capabilities, serverInfo, instructions }) };
}
