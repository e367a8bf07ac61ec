import { setImmediate as turn } from 'node:timers/promises';

/** The reason why a search is incomplete. */
export type StopReason = 'entries' | 'time' | 'depth';

export interface SearchLimits {
  readonly entries: number;
  readonly ms: number;
}

const defaultLimits: SearchLimits = { entries: 200_000, ms: 10_000 };

/** The largest number of names in a path that is searched. */
export const maxPathDepth = 64;
const maxSliceMs = 8;
const entriesPerCheck = 32;

/** The remaining work of one search. It is checked often, so that the search ends in time and yields to others. */
export interface SearchBudget {
  readonly stopped: StopReason | undefined;
  /** Counts one entry; true when `canContinue` should be called. */
  count(): boolean;
  /** Records that entries were left out while the search continues. */
  markIncomplete(why: StopReason): void;
  /** Yields when that is due, and tells whether the search may continue. */
  canContinue(): Promise<boolean>;
}

export function createSearchBudget({ entries, ms }: SearchLimits = defaultLimits, signal?: AbortSignal): SearchBudget {
  const end = performance.now() + ms;
  let sliceStart = performance.now();
  let entriesLeft = entries;
  let stopped: StopReason | undefined;
  let isOver = false;
  return {
    get stopped() {
      return stopped;
    },
    count() {
      return --entriesLeft % entriesPerCheck === 0 || entriesLeft <= 0 || performance.now() - sliceStart > maxSliceMs;
    },
    markIncomplete(why) {
      stopped ??= why;
    },
    async canContinue() {
      const now = performance.now();
      if (now - sliceStart > maxSliceMs) {
        await turn();
        sliceStart = performance.now();
      }
      signal?.throwIfAborted();
      if (isOver) return false;
      isOver = entriesLeft <= 0 || now >= end;
      if (isOver) stopped = entriesLeft <= 0 ? 'entries' : 'time';
      return !isOver;
    },
  };
}
