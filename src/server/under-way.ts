import { AmbitError } from '../errors.ts';
import { goneBecause } from '../sessions/gone-because.ts';
import type { LeaveReason } from '../sessions/session.ts';

/** Calls that wait for their handlers. When their session ends they are answered at once; what they do afterwards counts for nothing. */
export interface UnderWay {
  run<R>(sessionId: string, work: () => Promise<R>): Promise<R>;
  end(sessionId: string, reason: LeaveReason): void;
}

export function createUnderWay(): UnderWay {
  const calls = new Map<string, Set<(error: Error) => void>>();
  return {
    async run(sessionId, work) {
      const ofSession = calls.get(sessionId) ?? new Set();
      calls.set(sessionId, ofSession);
      let refuse: (error: Error) => void = () => {};
      const ended = new Promise<never>((_, reject) => {
        refuse = reject;
      });
      ofSession.add(refuse);
      try {
        return await Promise.race([work(), ended]);
      } finally {
        ofSession.delete(refuse);
        if (ofSession.size === 0 && calls.get(sessionId) === ofSession) calls.delete(sessionId);
      }
    },
    end(sessionId, reason) {
      const error =
        reason === 'unloaded' || reason === 'closed'
          ? new AmbitError('SESSION_ENDED', { what: 'The server is shutting down.' })
          : goneBecause(reason);
      for (const refuse of calls.get(sessionId) ?? []) refuse(error);
    },
  };
}
