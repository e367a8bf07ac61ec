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
  apart: boolean,
): Scope {
  if (server.kind !== 'stdio') return 'session';
  if (apart && server.scope === 'user') return 'session';
  return server.scope === 'workspace' && (apart || workspaceId === undefined) ? 'session' : server.scope;
}

/** True where one process serves several sessions. */
export function isWide(scope: Scope): boolean {
  return scope === 'user' || scope === 'workspace' || scope === 'shared';
}

export type KeyFacts = Pick<Session, 'id' | 'userId' | 'workspaceId' | 'trustLevel'>;

/**
 * Two sessions with the same key may be served by one process. The trust level is always part of it, and so is all
 * that the process is told when it starts: nothing in its environment is untrue for any call it serves.
 */
export function processKey(scope: Scope, { id, userId, workspaceId, trustLevel }: KeyFacts): string {
  return JSON.stringify([scope, trustLevel, ...partsOf(scope, id, userId, workspaceId ?? null)]);
}

function partsOf(scope: Scope, id: string, userId: string, workspaceId: string | null): (string | null)[] {
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
export function runFolder(scope: Scope, server: string, session: KeyFacts): string {
  const hash = createHash('sha256')
    .update(`${server} ${processKey(scope, session)}`)
    .digest('hex');
  return `${scope}-${hash.slice(0, 24)}`;
}
