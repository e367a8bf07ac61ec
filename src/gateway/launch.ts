import { join } from 'node:path';
import type { Config } from '../config/schema.ts';
import { contextFor } from '../context/context-for.ts';
import { explainInjection, type Provenance } from '../context/inject.ts';
import { toldAt } from '../context/told-at-scope.ts';
import type { Session } from '../sessions/session.ts';
import type { StdioServer } from '../upstreams/definition.ts';
import { isWide, runFolder, type Scope, scopeFor } from '../upstreams/process-key.ts';
import type { PreparedLaunch } from '../upstreams/stdio/server-process.ts';

export interface Launch extends PreparedLaunch {
  readonly provenance: Readonly<Record<string, Provenance>>;
}

/**
 * The fifth step of a resolution: what the server's process is told, and where it works. Whoever starts one for a single
 * session says so by the scope.
 */
export function launchOf(
  session: Session,
  server: StdioServer,
  config: Config,
  dataDir: string,
  scope: Scope = scopeFor(server, session),
): Launch {
  const { workspaceId: id } = session;
  const workspace = id === undefined ? undefined : config.workspaces[id];
  const where = id === undefined || workspace === undefined ? undefined : { id, path: workspace.path };
  const { name, command, env } = server;
  const context = toldAt(scope, contextFor(session, where));
  const { servers, provenance } = explainInjection({ [name]: { command, env } }, context, {
    prefixes: config.context.envPrefixes,
    source: server.source,
    // What serves several workspaces has the variables of none.
    overrides: scope === 'shared' ? undefined : workspace?.env,
  });
  // A user's process and one that all share belong to no folder of anybody's.
  const path = scope === 'user' || scope === 'shared' ? undefined : where?.path;
  return {
    env: servers[name]?.env ?? {},
    provenance: provenance[name] ?? {},
    cwd: path ?? join(dataDir, 'run', isWide(scope) ? runFolder(scope, name, session) : session.id),
  };
}
