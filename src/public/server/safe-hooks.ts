import type { Log } from '../../observability/log/log.ts';
import type { SessionMetrics } from './settings.ts';

/** The time that a function of the author has to answer. */
export const hookMs = 10_000;

/** Runs functions of the author, so that no error of them reaches a caller or ends the process. */
export type RunHook = (name: string, hook: () => unknown) => void;

export function createRunHook(log: Log): RunHook {
  return (name, hook) => {
    const report = (error: unknown) => log.warn('hook failed', { hook: name, error: String(error) });
    try {
      const answer = hook();
      if (answer instanceof Promise) answer.catch(report);
    } catch (error) {
      report(error);
    }
  };
}

/** Wraps the log of the author. There is nowhere to report its own errors. */
export function createSteadyLog(log: Log): Log {
  const wrap =
    (write: Log['info']): Log['info'] =>
    (event, fields) => {
      try {
        const answer: unknown = write.call(log, event, fields);
        if (answer instanceof Promise) answer.catch(() => {});
      } catch {
        // The call goes on without its line.
      }
    };
  const { debug } = log;
  return { info: wrap(log.info), warn: wrap(log.warn), ...(debug === undefined ? {} : { debug: wrap(debug) }) };
}

/** Wraps the metrics of the author. */
export function createSteadyMetrics(metrics: SessionMetrics, runHook: RunHook): Required<SessionMetrics> {
  return {
    sessionOpened: (...given) => runHook('metrics.sessionOpened', () => metrics.sessionOpened?.(...given)),
    sessionEnded: (...given) => runHook('metrics.sessionEnded', () => metrics.sessionEnded?.(...given)),
    called: (...given) => runHook('metrics.called', () => metrics.called?.(...given)),
    cacheLookedUp: (...given) => runHook('metrics.cacheLookedUp', () => metrics.cacheLookedUp?.(...given)),
    quotaRefused: (...given) => runHook('metrics.quotaRefused', () => metrics.quotaRefused?.(...given)),
  };
}
