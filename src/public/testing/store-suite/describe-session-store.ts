import type { NewSession } from '../../../stores/record.ts';
import { testClosing } from './closing.ts';
import { testConcurrency } from './concurrency.ts';
import { testDocuments } from './documents.ts';
import { testFeed } from './feed.ts';
import { testGrants } from './grants.ts';
import {
  createNewSession,
  type DefineTest,
  expectOutcome,
  type OpenStore,
  type SuiteRunner,
  suiteLimits,
} from './harness.ts';
import { testExpiry, testLifecycle } from './lifecycle.ts';
import { testListing, testTenancy } from './listing.ts';
import { testQuotas } from './quotas.ts';
import { testMarks, testState } from './state.ts';

const concerns = {
  lifecycle: testLifecycle,
  expiry: testExpiry,
  concurrency: testConcurrency,
  tenancy: testTenancy,
  listing: testListing,
  quotas: testQuotas,
  grants: testGrants,
  state: testState,
  marks: testMarks,
  documents: testDocuments,
  feed: testFeed,
  closing: testClosing,
};

/**
 * Defines tests of the behaviour that every session store must have, in your own runner: pass its `describe` and `test`.
 * Each test opens a store of its own, and no test waits for time to pass.
 */
export function describeSessionStore(name: string, open: OpenStore, runner: SuiteRunner): void {
  const defineTest: DefineTest = (title, run) => {
    runner.test(title, async () => {
      const harness = await open(suiteLimits);
      const others: { close(): Promise<void> }[] = [];
      const { another } = harness;
      const storeTest = {
        ...harness,
        async open(changes: Partial<NewSession> = {}) {
          return (await expectOutcome(harness.store.create(createNewSession(changes)), 'created')).record;
        },
        ...(another === undefined
          ? {}
          : {
              async another() {
                const store = await another();
                others.push(store);
                return store;
              },
            }),
      };
      try {
        await run(storeTest);
      } finally {
        for (const store of [...others, harness.store]) await store.close();
        await harness.dispose?.();
      }
    });
  };
  runner.describe(`session store: ${name}`, () => {
    for (const [concern, define] of Object.entries(concerns)) runner.describe(concern, () => define(defineTest));
  });
}
