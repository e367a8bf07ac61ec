import assert from 'node:assert/strict';
import type { NewSession } from '../../../stores/record.ts';
import { closing } from './closing.ts';
import { concurrency } from './concurrency.ts';
import { documents } from './documents.ts';
import { feed } from './feed.ts';
import { grants } from './grants.ts';
import {
  draft,
  type OpenStore,
  type SuiteRunner,
  suiteDocumentLimits,
  suiteStateLimits,
  type Tell,
} from './harness.ts';
import { expiry, lifecycle } from './lifecycle.ts';
import { listing, tenancy } from './listing.ts';
import { quotas } from './quotas.ts';
import { marks, state } from './state.ts';

const concerns = {
  lifecycle,
  expiry,
  concurrency,
  tenancy,
  listing,
  quotas,
  grants,
  state,
  marks,
  documents,
  feed,
  closing,
};

/**
 * The behaviour every session store must have, as tests in your own runner: pass its `describe` and `test`. Each test
 * opens a store of its own, so none leans on another; no test waits for time to pass.
 */
export function describeSessionStore(name: string, open: OpenStore, runner: SuiteRunner): void {
  const tell: Tell = (rule, proof) => {
    runner.test(rule, async () => {
      const harness = await open({ stateLimits: suiteStateLimits, documentLimits: suiteDocumentLimits });
      const others: { close(): Promise<void> }[] = [];
      const { another } = harness;
      const scene = {
        ...harness,
        async open(changes: Partial<NewSession> = {}) {
          const created = await harness.store.create(draft(changes));
          assert.ok(created.outcome === 'created', `a session was expected, not ${JSON.stringify(created)}`);
          return created.record;
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
        await proof(scene);
      } finally {
        for (const store of [...others, harness.store]) await store.close();
        await harness.dispose?.();
      }
    });
  };
  runner.describe(`session store: ${name}`, () => {
    for (const [concern, define] of Object.entries(concerns)) runner.describe(concern, () => define(tell));
  });
}
