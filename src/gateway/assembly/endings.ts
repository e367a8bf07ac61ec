/** What is still being cleared up after sessions that have ended, or were narrowed. */
export interface Endings {
  /** `over` resolves when nothing is left; `stopped` before that, when its processes have ended. */
  add(over: Promise<unknown>, stopped: Promise<unknown>): void;
  /** Waits for what processes left behind, two seconds at most after closing has begun. */
  waitFor(settled: Promise<unknown>): Promise<unknown>;
  /** Resolves when the processes of all that is just ending have ended. */
  stopped(): Promise<unknown>;
  /** Resolves when nothing is left of it. */
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
