import { join } from 'node:path';
import { findWorkspace } from '../../config/load/workspace-folders.ts';
import type { Config } from '../../config/schema/schema.ts';
import type { Pseudonyms } from '../../context/for-tools/pseudonyms.ts';
import {
  type ContextWorkspace,
  contextForScope,
  createSessionContext,
  explainInjection,
  listKeyFileNames,
  type Provenance,
  pseudonymizeContext,
  type ToolContext,
} from '../../context/for-tools/session-context.ts';
import type { Session } from '../../sessions/session.ts';
import type { SessionFolders } from '../../workspaces/session-folders/session-folders.ts';
import { workspaceGoneError } from '../../workspaces/workspaces.ts';
import { contextAudience, type StdioServer } from '../definition.ts';
import { isShared, type ProcessScope, processScopeFor, runFolderName } from '../links/process-key.ts';
import type { PreparedLaunch } from '../links/stdio/server-process.ts';
import { createConfinement, sandboxJwksPath } from './confinement.ts';

export interface ServerLaunch extends PreparedLaunch {
  readonly provenance: Readonly<Record<string, Provenance>>;
}

/** The keys and pseudonyms that a process is told beside the record of its session. */
export interface SigningInfo {
  readonly pseudonyms: Pseudonyms;
  /** The public keys as text for an environment; `file` is the path where a process finds later ones. */
  readonly jwks: (file?: string) => string;
  readonly jwksFile: string;
}

interface LaunchOptions {
  readonly dataDir: string;
  readonly configFile: string;
  /** Undefined where a server is only inspected. */
  readonly signing: SigningInfo | undefined;
  /** Left out where no session has a folder of its own. */
  readonly folders?: Pick<SessionFolders, 'hasOwnFolder' | 'path' | 'folderFor'>;
}

/** Prepares the environment and the working directory of a server's process. */
export function prepareLaunch(
  session: Session,
  server: StdioServer,
  config: Config,
  options: LaunchOptions,
  scope: ProcessScope = processScopeFor(server, session, options.folders?.hasOwnFolder(session) ?? false),
): ServerLaunch {
  const { workspaceId: id } = session;
  const workspace = findWorkspace(config, id);
  // Without the workspace of its session, a process would work somewhere else.
  if (id !== undefined && workspace === undefined) throw workspaceGoneError();
  const { name, command, env } = server;
  const { configFile, dataDir, signing, folders } = options;
  const ownFolders = folders?.hasOwnFolder(session) === true ? folders : undefined;
  const folder = ownFolders === undefined ? workspace?.path : ownFolders.path(session);
  const sessionWorkspace = id === undefined || workspace === undefined ? undefined : { id, path: folder };
  const context = contextForScope(scope, contextForServer(session, sessionWorkspace, server, signing));
  const { servers, provenance } = explainInjection({ [name]: { command, env } }, context, {
    prefixes: config.context.envPrefixes,
    source: server.source,
    // A process that serves several workspaces has the variables of none.
    overrides: scope === 'shared' ? undefined : workspace?.env,
  });
  // The process of a user, and one that all share, works in no workspace.
  const path = scope === 'user' || scope === 'shared' ? undefined : sessionWorkspace?.path;
  const cwd = path ?? join(dataDir, 'run', isShared(scope) ? runFolderName(scope, name, session) : session.id);
  // A user's process still serves one workspace, and is told its path.
  const servedWorkspace = scope === 'user' ? sessionWorkspace?.path : undefined;
  const places = { cwd, workspace: servedWorkspace, configFile, dataDir, jwksFile: signing?.jwksFile };
  const confinement =
    session.trustLevel === 'direct'
      ? undefined
      : () => createConfinement({ ...places, server, rules: workspace, config });
  const ready = prepareFolder();
  const isGivenFolder = path !== undefined && ownFolders === undefined && workspace?.create === false;
  const { env: given = {} } = servers[name] ?? {};

  /** Creates the last step before a start. */
  function prepareFolder(): ServerLaunch['ready'] {
    // If the own folder cannot be made, the process must not start in the workspace of others.
    if (ownFolders !== undefined) return scope === 'shared' ? undefined : () => ownFolders.folderFor(session);
    if (path === undefined || workspace?.pattern === undefined) return undefined;
    // The folder may have become a link while the start waited.
    return async () => {
      if (findWorkspace(config, id) === undefined) throw workspaceGoneError();
    };
  }

  const keyFileNames = usesProcessKey(server, scope, signing)
    ? listKeyFileNames(config.context.envPrefixes)
    : undefined;
  return { env: given, provenance: provenance[name] ?? {}, cwd, isGivenFolder, ready, keyFileNames, confinement };
}

/** A process that several sessions share could sign the context of one session for another. */
function usesProcessKey(server: StdioServer, scope: ProcessScope, signing: SigningInfo | undefined): boolean {
  return signing !== undefined && server.context !== 'none' && server.signature === 'process' && !isShared(scope);
}

function contextForServer(
  session: Session,
  workspace: ContextWorkspace | undefined,
  server: StdioServer,
  signing: SigningInfo | undefined,
): ToolContext {
  if (server.context === 'none') return {};
  const jwks = signing?.jwks(session.trustLevel === 'direct' ? undefined : sandboxJwksPath);
  const full = createSessionContext(session, workspace, jwks);
  if (server.context === 'full') return full;
  return signing === undefined ? {} : pseudonymizeContext(full, contextAudience(server), signing.pseudonyms);
}
