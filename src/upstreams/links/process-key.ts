import { createHash } from 'node:crypto';
import type { Session } from '../../sessions/session.ts';
import type { ServerDefinition } from '../definition.ts';

/** The scope in which the process of a server is shared. */
export type ProcessScope = 'call' | 'session' | 'user' | 'workspace' | 'shared';

/**
 * The scope that holds for a session. A session without a workspace shares no process of a workspace, and neither does
 * one with a folder of its own.
 */
export function processScopeFor(
  server: ServerDefinition,
  { workspaceId }: Pick<Session, 'workspaceId'>,
  hasOwnFolder: boolean,
): ProcessScope {
  if (server.kind !== 'stdio') return 'session';
  if (hasOwnFolder && server.scope === 'user') return 'session';
  return server.scope === 'workspace' && (hasOwnFolder || workspaceId === undefined) ? 'session' : server.scope;
}

export function isShared(scope: ProcessScope): boolean {
  return scope === 'user' || scope === 'workspace' || scope === 'shared';
}

export type ProcessOwner = Pick<Session, 'id' | 'userId' | 'workspaceId' | 'trustLevel'>;

/**
 * The key of sessions that may share one process. It holds the trust level and everything that the process is told at its
 * start, so that its environment is true for every call.
 */
export function processKey(scope: ProcessScope, { id, userId, workspaceId, trustLevel }: ProcessOwner): string {
  return JSON.stringify([scope, trustLevel, ...keyParts(scope, id, userId, workspaceId ?? null)]);
}

function keyParts(scope: ProcessScope, id: string, userId: string, workspaceId: string | null): (string | null)[] {
  switch (scope) {
    case 'call':
    case 'session':
      return [id, workspaceId];
    case 'user':
      return [userId, workspaceId];
    case 'workspace':
      return [workspaceId];
    case 'shared':
      return [];
  }
}

/** The name of the folder below `run` where a shared process works. */
export function runFolderName(scope: ProcessScope, server: string, session: ProcessOwner): string {
  const hash = createHash('sha256')
    .update(`${server} ${processKey(scope, session)}`)
    .digest('hex');
  return `${scope}-${hash.slice(0, 24)}`;
}
