import { createHash } from 'node:crypto';

/**
 * The tasks that each session has made, or has named by an id sealed for it. An upstream that knows Ambit as one
 * customer tells every session about the tasks of all: only those that are known here are passed on.
 */
export interface KnownTasks {
  remember(sessionId: string, server: string, taskId: string): void;
  knows(sessionId: string, server: string, taskId: string): boolean;
  /** All tasks of a session that has ended. */
  forget(sessionId: string): void;
}

/** When there are more, the one that was named least recently is no longer listed; its sealed id works as before. */
const mostPerSession = 1000;

export function createKnownTasks(): KnownTasks {
  const bySession = new Map<string, Set<string>>();
  return {
    remember(sessionId, server, taskId) {
      if (sessionId === '') return;
      const known = bySession.get(sessionId) ?? new Set();
      bySession.set(sessionId, known);
      const digest = digestOf(server, taskId);
      known.delete(digest);
      known.add(digest);
      const [oldest] = known;
      if (known.size > mostPerSession && oldest !== undefined) known.delete(oldest);
    },
    knows: (sessionId, server, taskId) => bySession.get(sessionId)?.has(digestOf(server, taskId)) ?? false,
    forget: (sessionId) => void bySession.delete(sessionId),
  };
}

/** Ids can be long: a digest is not. */
function digestOf(server: string, taskId: string): string {
  return createHash('sha256')
    .update(JSON.stringify([server, taskId]))
    .digest('base64url');
}
