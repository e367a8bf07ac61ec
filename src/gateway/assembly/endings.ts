/** The clearing up after sessions that have just ended, or were narrowed. */
export interface Endings {
  /** Adds one: `over` resolves when nothing of the session is left, `stopped` earlier, when its processes have ended. */
  add(over: Promise<unknown>, stopped: Promise<unknown>): void;
  /** Waits for the end of what processes left behind; once `over` was called, two seconds at most. */
  waitFor(settled: Promise<unknown>): Promise<unknown>;
  /** Resolves when the processes of all of them have ended. */
  stopped(): Promise<unknown>;
  /** Resolves when nothing is left of any. */
  over(): Promise<unknown>;
}

const leftBehindMs = 2000;

export function createEndings(): Endings {
  const ending = new Map<Promise<unknown>, Promise<unknown>>();
  let waitNoLonger: () => void = () => {};
  const waitedLongEnough = new Promise<void>((accept) => {
    waitNoLonger = accept;
  });
  return {
    add(over, stopped) {
      const removed: Promise<unknown> = over.finally(() => ending.delete(removed));
      ending.set(removed, stopped);
    },
    waitFor: (settled) => Promise.race([settled, waitedLongEnough]),
    stopped: () => Promise.all(ending.values()),
    over() {
      setTimeout(waitNoLonger, leftBehindMs).unref();
      return Promise.all(ending.keys());
    },
  };
}
