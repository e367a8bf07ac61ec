import { vi } from 'vitest';
import { describeSessionStore } from '../../src/public/testing/store-suite/describe-session-store.ts';
import type { OpenStore } from '../../src/public/testing/store-suite/harness.ts';

/** Runs the published suite by hand and answers the rules that were broken. */
export async function runSuite(open: OpenStore): Promise<string[]> {
  const proofs: { rule: string; run: () => Promise<void> }[] = [];
  const concern: string[] = [];
  describeSessionStore('by hand', open, {
    describe(name, define) {
      concern.push(name);
      define();
      concern.pop();
    },
    test: (rule, run) => void proofs.push({ rule: `${concern.at(-1)}: ${rule}`, run }),
  });
  const broken: string[] = [];
  // A store in memory needs no time for anything. Only the suite's patience with one that says nothing does.
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  try {
    let left = proofs.length;
    // Each opens a store of its own, so they can run at the same time.
    for (const { rule, run } of proofs) {
      void run()
        .catch(() => broken.push(rule))
        .finally(() => left--);
    }
    while (left > 0) {
      for (let turns = 0; turns < 100; turns++) await new Promise(setImmediate);
      if (left > 0) vi.advanceTimersByTime(60_000);
    }
  } finally {
    vi.useRealTimers();
  }
  return broken;
}
