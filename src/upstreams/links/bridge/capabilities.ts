import { handshakeVersions, modernVersion } from '../../../protocol/versions.ts';

type Facts = Record<string, unknown>;

/** What a server of the handshake era said of itself, as an answer to `server/discover`. */
export function discoverResult(initializeResult: string): string {
  const { capabilities, serverInfo, instructions } = JSON.parse(initializeResult) as Facts;
  const { tasks: _tasks, experimental: _experimental, ...offered } = (capabilities ?? {}) as Facts;
  return JSON.stringify({
    resultType: 'complete',
    supportedVersions: [modernVersion],
    capabilities: offered,
    ...(instructions === undefined ? {} : { instructions }),
    ttlMs: 0,
    cacheScope: 'private',
    ...(serverInfo === undefined ? {} : { _meta: { 'io.modelcontextprotocol/serverInfo': serverInfo } }),
  });
}

/** What a modern server said of itself, as an answer to `initialize`. */
export function initializeResult(discoverAnswer: string, requested: string | undefined): string {
  const { capabilities, instructions, _meta } = JSON.parse(discoverAnswer) as Facts;
  const { extensions: _extensions, ...offered } = (capabilities ?? {}) as Facts;
  const serverInfo = ((_meta ?? {}) as Facts)['io.modelcontextprotocol/serverInfo'];
  const known = requested !== undefined && handshakeVersions.includes(requested);
  return JSON.stringify({
    protocolVersion: known ? requested : handshakeVersions[0],
    capabilities: { ...offered, logging: {} },
    serverInfo: serverInfo ?? { name: 'unknown', version: '0' },
    ...(instructions === undefined ? {} : { instructions }),
  });
}
