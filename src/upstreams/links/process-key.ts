import { createHash } from 'node:crypto';
import type { Session } from '../../sessions/session.ts';
import type { ServerDefinition } from '../definition.ts';

/** Who shares the process of a server. */
export type Scope = 'call' | 'session' | 'user' | 'workspace' | 'shared';

/**
 * The scope that holds for a session: one that stands in no workspace has nobody to share a workspace's process with, and
 * one that has a folder of its own there (`apart`) shares no process that works in a workspace.
 */
export function scopeFor(
  server: ServerDefinition,
  { workspaceId }: Pick<Session, 'workspaceId'>,
  hasOwnFolder: boolean,
): Scope {
  if (server.kind !== 'stdio') return 'session';
  if (hasOwnFolder && server.scope === 'user') return 'session';
  return server.scope === 'workspace' && (hasOwnFolder || workspaceId === undefined) ? 'session' : server.scope;
}

/** True where one process serves several sessions. */
export function isWide(scope: Scope): boolean {
  return scope === 'user' || scope === 'workspace' || scope === 'shared';
}

export type ProcessOwner = Pick<Session, 'id' | 'userId' | 'workspaceId' | 'trustLevel'>;

/**
 * Two sessions with the same key may be served by one process. The trust level is always part of it, and so is all
 * that the process is told when it starts: nothing in its environment is untrue for any call it serves.
 */
export function processKey(scope: Scope, { id, userId, workspaceId, trustLevel }: ProcessOwner): string {
  return JSON.stringify([scope, trustLevel, ...keyParts(scope, id, userId, workspaceId ?? null)]);
}

function keyParts(scope: Scope, id: string, userId: string, workspaceId: string | null): (string | null)[] {
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

/** The folder below `run` where a process works that belongs to no one session. */
export function runFolderName(scope: Scope, server: string, session: ProcessOwner): string {
  const hash = createHash('sha256')
    .update(`${server} ${processKey(scope, session)}`)
    .digest('hex');
  return `${scope}-${hash.slice(0, 24)}`;
}
