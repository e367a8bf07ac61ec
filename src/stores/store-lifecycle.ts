import { AmbitError } from '../errors.ts';
import type { SessionStore } from './store.ts';

export function unavailableError(what: string, cause?: unknown): AmbitError {
  return new AmbitError('STORE_UNAVAILABLE', cause === undefined ? { what } : { what, cause });
}

export const closedStoreError = (): AmbitError => unavailableError('The session store has been closed.');

/** Wraps a store so that it refuses everything after `close`, and turns thrown errors into rejections. */
export function refuseWhenClosed(store: SessionStore): SessionStore {
  let closing: Promise<void> | undefined;

  function guard<T extends object>(part: T): T {
    const guarded = Object.entries(part).map(([name, member]) => [
      name,
      typeof member !== 'function'
        ? member
        : async (...values: unknown[]) => {
            if (closing !== undefined) throw closedStoreError();
            return member(...values);
          },
    ]);
    return Object.fromEntries(guarded) as T;
  }

  return {
    ...guard(store),
    state: guard(store.state),
    marks: guard(store.marks),
    inboxes: guard(store.inboxes),
    results: guard(store.results),
    documents: guard(store.documents),
    watch: store.watch,
    close() {
      closing ??= store.close();
      return closing;
    },
  };
}

/** Runs something every second without keeping the process alive. A failure is ignored until the next run. */
export function runEverySecond(work: () => Promise<unknown>): () => void {
  const timer = setInterval(() => {
    work().catch(() => {});
  }, 1000).unref();
  return () => clearInterval(timer);
}
