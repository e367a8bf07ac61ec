import type { InProcessServer } from '../../upstreams/definition.ts';
import { createFilesOfSessions, type FilesOfSessions } from '../../workspaces/files-of-sessions.ts';
import { createSessionTools } from '../../workspaces/tools/create-session-tools.ts';
import { explainCall } from '../inspect/explain-call.ts';
import type { ServerAccess } from '../operator/operator.ts';
import { createOwnServer } from '../routing/own-link.ts';
import { createOwnTools, type OwnTools } from '../routing/own-tools.ts';
import type { ClosingStack } from './closing-stack.ts';
import type { AccessParts } from './open-access.ts';
import type { Sandbox } from './open-sandbox.ts';
import type { SessionParts } from './open-sessions.ts';
import type { Storage } from './open-storage.ts';

export interface OwnToolParts {
  readonly files: FilesOfSessions;
  readonly own: OwnTools;
  /** The server in this process that runs them. */
  readonly ownServer: InProcessServer;
  /** Tells what sessions may use, these tools included. */
  readonly access: ServerAccess;
}

export interface OwnToolOptions {
  readonly storage: Storage;
  readonly sandbox: Sandbox;
  readonly sessions: SessionParts;
  readonly access: Pick<AccessParts, 'resolution' | 'tools'>;
}

/** Opens Ambit's own tools and the files that they work on. */
export function openOwnTools(options: OwnToolOptions, closing: ClosingStack): OwnToolParts {
  const { settings, places, store, journal, log } = options.storage;
  const { sessions, folders, governance } = options.sessions;
  const { runners, tmpRoot } = options.sandbox;
  const { resolution, tools } = options.access;
  const { config } = settings;
  const { dataDir } = places;
  const files = createFilesOfSessions({ config, store, journal, folders, runners, tmpRoot, dataDir, log });
  closing.push(files.close);
  const { contextOf } = governance;
  const sessionTools = createSessionTools({ sessions, store, files, contextOf });
  const own = createOwnTools(sessionTools, tools);
  const access: ServerAccess = {
    explain: resolution.explain,
    narrowsTools: (server) => tools.of(server) !== undefined,
    explainCall: (session, tool, args) => explainCall({ resolution, tools, own }, session, tool, args),
    hasOwnTools: (session) => own.texts(session).length > 0,
  };
  return { files, own, ownServer: createOwnServer(sessionTools), access };
}
