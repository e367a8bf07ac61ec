import { join } from 'node:path';
import type { Config } from '../../config/schema/schema.ts';
import { contextFor, hiddenContextFor, type ToldWorkspace } from '../../context/for-tools/context-for.ts';
import type { SessionContext } from '../../context/for-tools/context-names.ts';
import { explainInjection, type Provenance } from '../../context/for-tools/inject.ts';
import type { Pseudonyms } from '../../context/for-tools/pseudonyms.ts';
import { toldAt } from '../../context/for-tools/told-at-scope.ts';
import type { Session } from '../../sessions/session.ts';
import type { SessionFolders } from '../../workspaces/session-folders/session-folders.ts';
import { contextAudience, type StdioServer } from '../definition.ts';
import { isWide, runFolderName, type Scope, scopeFor } from '../links/process-key.ts';
import type { PreparedLaunch } from '../links/stdio/server-process.ts';
import { createConfinement, sandboxJwksPath } from './confinement.ts';

export interface Launch extends PreparedLaunch {
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
  readonly telling: SigningInfo | undefined;
  /** Left out where no session has a folder of its own. */
  readonly folders?: Pick<SessionFolders, 'isApart' | 'path' | 'folderFor'>;
}

/** Prepares the environment and the working directory of a server's process. */
export function launchOf(
  session: Session,
  server: StdioServer,
  config: Config,
  options: LaunchOptions,
  scope: Scope = scopeFor(server, session, options.folders?.isApart(session) ?? false),
): Launch {
  const { workspaceId: id } = session;
  const workspace = id === undefined ? undefined : config.workspaces[id];
  const { name, command, env } = server;
  const { configFile, dataDir, telling, folders } = options;
  const ownFolders = folders?.isApart(session) === true ? folders : undefined;
  const folder = ownFolders === undefined ? workspace?.path : ownFolders.path(session);
  const sessionWorkspace = id === undefined || workspace === undefined ? undefined : { id, path: folder };
  const context = toldAt(scope, contextForServer(session, sessionWorkspace, server, telling));
  const { servers, provenance } = explainInjection({ [name]: { command, env } }, context, {
    prefixes: config.context.envPrefixes,
    source: server.source,
    // A process that serves several workspaces has the variables of none.
    overrides: scope === 'shared' ? undefined : workspace?.env,
  });
  // The process of a user, and one that all share, works in no workspace.
  const path = scope === 'user' || scope === 'shared' ? undefined : sessionWorkspace?.path;
  const cwd = path ?? join(dataDir, 'run', isWide(scope) ? runFolderName(scope, name, session) : session.id);
  // A user's process still serves one workspace, and is told its path.
  const servedWorkspace = scope === 'user' ? sessionWorkspace?.path : undefined;
  const jwksFile = telling?.jwksFile;
  const confinement =
    session.trustLevel === 'direct'
      ? undefined
      : () =>
          createConfinement({
            server,
            cwd,
            workspace: servedWorkspace,
            rules: workspace,
            config,
            configFile,
            dataDir,
            jwksFile,
          });
  // If the own folder cannot be made, the process must not start in the workspace of others.
  const ready = ownFolders === undefined || scope === 'shared' ? undefined : () => ownFolders.folderFor(session);
  return { env: servers[name]?.env ?? {}, provenance: provenance[name] ?? {}, cwd, ready, confinement };
}

function contextForServer(
  session: Session,
  workspace: ToldWorkspace | undefined,
  server: StdioServer,
  signing: SigningInfo | undefined,
): SessionContext {
  if (server.context === 'none') return {};
  const full = contextFor(
    session,
    workspace,
    signing?.jwks(session.trustLevel === 'direct' ? undefined : sandboxJwksPath),
  );
  if (server.context === 'full') return full;
  return signing === undefined ? {} : hiddenContextFor(full, contextAudience(server), signing.pseudonyms);
}
