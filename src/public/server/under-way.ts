import { AmbitError } from '../../errors.ts';
import { goneBecause, type LeaveReason } from '../../sessions/session.ts';
import { type Handling, store as handlings } from '../sdk/current-session.ts';

/**
 * Calls that wait for their handlers. When their session ends they are answered at once, and what they do afterwards
 * counts for nothing; but a call that ends its own session gets its answer.
 */
export interface UnderWay {
  run<R>(sessionId: string, handling: Handling, work: () => Promise<R>): Promise<R>;
  end(sessionId: string, reason: LeaveReason): void;
}

export function createUnderWay(): UnderWay {
  const calls = new Map<string, Map<Handling, (error: Error) => void>>();
  return {
    async run(sessionId, handling, work) {
      const ofSession = calls.get(sessionId) ?? new Map<Handling, (error: Error) => void>();
      calls.set(sessionId, ofSession);
      const ended = new Promise<never>((_, reject) => void ofSession.set(handling, reject));
      try {
        return await Promise.race([work(), ended]);
      } finally {
        ofSession.delete(handling);
        if (ofSession.size === 0 && calls.get(sessionId) === ofSession) calls.delete(sessionId);
      }
    },
    end(sessionId, reason) {
      const error =
        reason === 'unloaded' || reason === 'closed'
          ? new AmbitError('SESSION_ENDED', { what: 'The server is shutting down.' })
          : goneBecause(reason);
      const itself = handlings.getStore();
      for (const [handling, refuse] of calls.get(sessionId) ?? []) if (handling !== itself) refuse(error);
    },
  };
}
