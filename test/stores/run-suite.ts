import { describeSessionStore } from '../../src/testing/store-suite/describe-session-store.ts';
import type { OpenStore } from '../../src/testing/store-suite/harness.ts';

/** Runs the published suite by hand and answers the rules that were broken. */
export async function brokenRules(open: OpenStore): Promise<string[]> {
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
  // Each opens a store of its own; together, the few that wait for something do it at the same time.
  await Promise.all(proofs.map(({ rule, run }) => run().catch(() => broken.push(rule))));
  return broken;
}
