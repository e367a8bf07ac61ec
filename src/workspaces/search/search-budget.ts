import { setImmediate as turn } from 'node:timers/promises';

/** Why a search stopped before it was through. */
export type Stopped = 'entries' | 'time' | 'depth';

export interface SearchLimits {
  readonly entries: number;
  readonly ms: number;
}

const defaultLimits: SearchLimits = { entries: 200_000, ms: 10_000 };

/** Names between two slashes, at most, in a path that is looked at. */
export const maxPathDepth = 64;
const maxSliceMs = 8;
const entriesPerCheck = 32;

/** What one search has left; asked often, so that it ends in time and others get their turn. */
export interface SearchBudget {
  /** Why it is over; undefined while there is something left. */
  readonly stopped: Stopped | undefined;
  /** One more entry was looked at; true when it is time to ask whether it goes on. */
  count(): boolean;
  /** Something was left out, though the search goes on. */
  markIncomplete(why: Stopped): void;
  /** Whether it goes on, after a turn for others when one is due. */
  canContinue(): Promise<boolean>;
}

export function createBudget({ entries, ms }: SearchLimits = defaultLimits, signal?: AbortSignal): SearchBudget {
  const end = performance.now() + ms;
  let sliceStart = performance.now();
  let entriesLeft = entries;
  let stopped: Stopped | undefined;
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
