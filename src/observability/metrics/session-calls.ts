/** Tool calls of each session that is under way here, until it ends. */
export interface SessionCalls {
  add(sessionId: string): void;
  /** How many there were; it is forgotten with this. */
  take(sessionId: string): number;
}

/** Of a session that ends elsewhere nobody may hear here: the ones heard of first make room. */
export const mostSessions = 100_000;

export function createSessionCalls(): SessionCalls {
  const calls = new Map<string, { count: number }>();
  return {
    add(sessionId) {
      const known = calls.get(sessionId);
      if (known !== undefined) {
        known.count++;
        return;
      }
      if (calls.size >= mostSessions) calls.delete(calls.keys().next().value as string);
      calls.set(sessionId, { count: 1 });
    },
    take(sessionId) {
      const count = calls.get(sessionId)?.count ?? 0;
      calls.delete(sessionId);
      return count;
    },
  };
}
