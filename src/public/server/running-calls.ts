import { AmbitError } from '../../errors.ts';
import { sessionGoneError, type UnloadReason } from '../../sessions/session.ts';
import { type ActiveCall, activeCall } from '../sdk/current-session.ts';

/**
 * Calls that wait for their handlers. When their session ends, their signal is aborted and they are answered at once,
 * whatever the handler does afterwards. A call that ends its own session still gets its answer.
 */
export interface RunningCalls {
  /** Begins a call, which must be finished. `cancelled` is aborted when the client cancels it. */
  begin(sessionId: string, cancelled: AbortSignal | undefined): RunningCall;
  end(sessionId: string, reason: UnloadReason): void;
}

export interface RunningCall {
  /** Aborted when the session ends or the client cancels the call. */
  readonly signal: AbortSignal;
  /** Waits for work before or after the handler, until the session ends or the client cancels the call. */
  wait<R>(work: Promise<R>): Promise<R>;
  /** Runs the handler; throws if the session has ended or the call was cancelled since it began. */
  run<R>(call: ActiveCall, work: () => Promise<R>): Promise<R>;
  finish(): void;
}

interface CallEntry {
  readonly controller: AbortController;
  call?: ActiveCall;
  refuse?(error: Error): void;
}

export function createRunningCalls(): RunningCalls {
  const entries = new Map<string, Set<CallEntry>>();
  return {
    begin(sessionId, cancelled) {
      const controller = new AbortController();
      const entry: CallEntry = { controller };
      const ofSession = entries.get(sessionId) ?? new Set();
      entries.set(sessionId, ofSession.add(entry));
      const signal = cancelled === undefined ? controller.signal : AbortSignal.any([controller.signal, cancelled]);
      return {
        signal,
        async wait(work) {
          work.catch(() => {});
          const findReason = () => (controller.signal.aborted ? controller.signal.reason : closedError());
          if (signal.aborted) throw findReason();
          let stop = () => {};
          const ended = new Promise<never>((_, reject) => {
            stop = () => reject(findReason());
          });
          signal.addEventListener('abort', stop, { once: true });
          try {
            return await Promise.race([work, ended]);
          } finally {
            signal.removeEventListener('abort', stop);
          }
        },
        async run(call, work) {
          if (controller.signal.aborted) throw controller.signal.reason;
          // Nobody reads the answer to a cancelled call.
          if (cancelled?.aborted) throw closedError();
          entry.call = call;
          const ended = new Promise<never>((_, reject) => {
            entry.refuse = reject;
          });
          return await Promise.race([work(), ended]);
        },
        finish() {
          ofSession.delete(entry);
          if (ofSession.size === 0 && entries.get(sessionId) === ofSession) entries.delete(sessionId);
        },
      };
    },
    end(sessionId, reason) {
      const error = reason === 'unloaded' || reason === 'closed' ? closedError() : sessionGoneError(reason);
      const current = activeCall.getStore();
      for (const { call, controller, refuse } of entries.get(sessionId) ?? []) {
        if (call !== undefined && call === current) continue;
        refuse?.(error);
        controller.abort(error);
      }
    },
  };
}

function closedError(): AmbitError {
  return new AmbitError('SESSION_ENDED', { what: 'The connection was closed.' });
}
