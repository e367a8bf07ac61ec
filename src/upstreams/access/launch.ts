import { join } from 'node:path';
import type { Config } from '../../config/schema/schema.ts';
import { contextFor, hiddenContextFor, type ToldWorkspace } from '../../context/for-tools/context-for.ts';
import type { SessionContext } from '../../context/for-tools/context-names.ts';
import { explainInjection, type Provenance } from '../../context/for-tools/inject.ts';
import type { Pseudonyms } from '../../context/for-tools/pseudonyms.ts';
import { toldAt } from '../../context/for-tools/told-at-scope.ts';
import type { Session } from '../../sessions/session.ts';
import type { SessionFolders } from '../../workspaces/session-folders/session-folders.ts';
import { audienceOf, type StdioServer } from '../definition.ts';
import { isWide, runFolder, type Scope, scopeFor } from '../links/process-key.ts';
import type { PreparedLaunch } from '../links/stdio/server-process.ts';
import { confine, keysInside } from './confinement.ts';

export interface Launch extends PreparedLaunch {
  readonly provenance: Readonly<Record<string, Provenance>>;
}

/** What tells a process more than its session's record says. */
export interface Telling {
  readonly pseudonyms: Pseudonyms;
  /** The keys its calls verify with, as text for an environment, and the file where a process finds the next ones. */
  readonly jwks: (file?: string) => string;
  readonly jwksFile: string;
}

interface LaunchPlace {
  readonly dataDir: string;
  readonly configFile: string;
  /** Undefined where a server is only looked at. */
  readonly telling: Telling | undefined;
  /** Left out where no session has a folder of its own. */
  readonly folders?: Pick<SessionFolders, 'isApart' | 'path' | 'folderFor'>;
}

/**
 * The fifth step of a resolution: what the server's process is told, and where it works. Whoever starts one for a single
 * session says so by the scope.
 */
export function launchOf(
  session: Session,
  server: StdioServer,
  config: Config,
  place: LaunchPlace,
  scope: Scope = scopeFor(server, session, place.folders?.isApart(session) ?? false),
): Launch {
  const { workspaceId: id } = session;
  const workspace = id === undefined ? undefined : config.workspaces[id];
  const { name, command, env } = server;
  const { configFile, dataDir, telling, folders } = place;
  const own = folders?.isApart(session) === true ? folders : undefined;
  const folder = own === undefined ? workspace?.path : own.path(session);
  const where = id === undefined || workspace === undefined ? undefined : { id, path: folder };
  const context = toldAt(scope, told(session, where, server, telling));
  const { servers, provenance } = explainInjection({ [name]: { command, env } }, context, {
    prefixes: config.context.envPrefixes,
    source: server.source,
    // What serves several workspaces has the variables of none.
    overrides: scope === 'shared' ? undefined : workspace?.env,
  });
  // A user's process and one that all share belong to no folder of anybody's.
  const path = scope === 'user' || scope === 'shared' ? undefined : where?.path;
  const cwd = path ?? join(dataDir, 'run', isWide(scope) ? runFolder(scope, name, session) : session.id);
  // A user's process serves one workspace all the same, and is told where it lies.
  const besides = scope === 'user' ? where?.path : undefined;
  const jwksFile = telling?.jwksFile;
  const confinement =
    session.trustLevel === 'direct'
      ? undefined
      : () => confine({ server, cwd, workspace: besides, rules: workspace, config, configFile, dataDir, jwksFile });
  // Never in the workspace that others work in, nor in any other folder, where this one cannot be made.
  const ready = own === undefined || scope === 'shared' ? undefined : () => own.folderFor(session);
  return { env: servers[name]?.env ?? {}, provenance: provenance[name] ?? {}, cwd, ready, confinement };
}

function told(
  session: Session,
  workspace: ToldWorkspace | undefined,
  server: StdioServer,
  telling: Telling | undefined,
): SessionContext {
  if (server.context === 'none') return {};
  const full = contextFor(session, workspace, telling?.jwks(session.trustLevel === 'direct' ? undefined : keysInside));
  if (server.context === 'full') return full;
  return telling === undefined ? {} : hiddenContextFor(full, audienceOf(server), telling.pseudonyms);
}
