import { createPseudonyms, type Pseudonyms } from '../../context/for-tools/pseudonyms.ts';
import { writeInlineKeys } from '../../context/for-tools/signing-keys.ts';
import { createServerResolution, type ServerResolution } from '../../upstreams/access/resolution.ts';
import { createToolAccess, type ToolAccess } from '../../upstreams/access/tool-access.ts';
import { createFetchedPackage } from '../inspect/inspect-server.ts';
import type { ClosingStack } from './closing-stack.ts';
import { type AuthParts, openAuth } from './open-auth.ts';
import type { GatewayParts } from './react-to-change.ts';

/** The parts that decide which servers and tools a session may use, and which credentials those servers get. */
export interface AccessParts extends AuthParts {
  readonly pseudonyms: Pseudonyms;
  readonly resolution: ServerResolution;
  readonly tools: ToolAccess;
}

interface AccessOptions extends Pick<GatewayParts, 'storage' | 'sessions'> {
  readonly credentials: boolean;
}

export async function openAccess(options: AccessOptions, closing: ClosingStack): Promise<AccessParts> {
  const { storage, sessions: parts, credentials } = options;
  const { settings, paths, keys, log } = storage;
  const { sessions, folders } = parts;
  const { approvals, auth } = await openAuth(
    { storage, fetchedPackage: createFetchedPackage(paths.dataDir), credentials },
    closing,
  );
  const { config, servers } = settings;
  const pseudonyms = createPseudonyms(keys.pseudonymSecret);
  const resolution = createServerResolution({
    config,
    servers,
    latest: sessions.get,
    approvals,
    ...paths,
    log,
    signing: { pseudonyms, jwks: (file) => writeInlineKeys(keys, file), jwksFile: keys.jwksFile },
    auth: auth.authFor,
    folders,
  });
  const tools = createToolAccess({ config, latest: sessions.get });
  return { approvals, auth, pseudonyms, resolution, tools };
}
