import { join } from 'node:path';
import type { Config } from '../config/schema.ts';
import { contextFor } from '../context/context-for.ts';
import { explainInjection, type Provenance } from '../context/inject.ts';
import type { Session } from '../sessions/session.ts';
import type { StdioServer } from '../upstreams/definition.ts';
import type { PreparedLaunch } from '../upstreams/stdio/server-process.ts';

export interface Launch extends PreparedLaunch {
  readonly provenance: Readonly<Record<string, Provenance>>;
}

/** The fifth step of a resolution: what the server's process is told, and where it works. */
export function launchOf(session: Session, server: StdioServer, config: Config, dataDir: string): Launch {
  const { workspaceId: id } = session;
  const workspace = id === undefined ? undefined : config.workspaces[id];
  const where = id === undefined || workspace === undefined ? undefined : { id, path: workspace.path };
  const { name, command, env } = server;
  const { servers, provenance } = explainInjection({ [name]: { command, env } }, contextFor(session, where), {
    prefixes: config.context.envPrefixes,
    source: server.source,
    overrides: workspace?.env,
  });
  return {
    env: servers[name]?.env ?? {},
    provenance: provenance[name] ?? {},
    cwd: where?.path ?? join(dataDir, 'run', session.id),
  };
}
