import { setImmediate as turn } from 'node:timers/promises';

/** Why a search stopped before it was through. */
export type Stopped = 'entries' | 'time' | 'depth';

export interface SearchBounds {
  readonly entries: number;
  readonly ms: number;
}

const ordinaryBounds: SearchBounds = { entries: 200_000, ms: 10_000 };

/** Names between two slashes, at most, in a path that is looked at. */
export const deepest = 64;
const longestTurnMs = 8;
const entriesPerLook = 32;

/** What one search has left; asked often, so that it ends in time and others get their turn. */
export interface Budget {
  /** Why it is over; undefined while there is something left. */
  readonly stopped: Stopped | undefined;
  /** One more entry was looked at; true when it is time to ask whether it goes on. */
  count(): boolean;
  /** Something was left out, though the search goes on. */
  leaveOut(why: Stopped): void;
  /** Whether it goes on, after a turn for others when one is due. */
  goesOn(): Promise<boolean>;
}

export function createBudget({ entries, ms }: SearchBounds = ordinaryBounds, signal?: AbortSignal): Budget {
  const end = performance.now() + ms;
  let began = performance.now();
  let left = entries;
  let stopped: Stopped | undefined;
  let isOver = false;
  return {
    get stopped() {
      return stopped;
    },
    count() {
      return --left % entriesPerLook === 0 || left <= 0 || performance.now() - began > longestTurnMs;
    },
    leaveOut(why) {
      stopped ??= why;
    },
    async goesOn() {
      const now = performance.now();
      if (now - began > longestTurnMs) {
        await turn();
        began = performance.now();
      }
      signal?.throwIfAborted();
      if (isOver) return false;
      isOver = left <= 0 || now >= end;
      if (isOver) stopped = left <= 0 ? 'entries' : 'time';
      return !isOver;
    },
  };
}
