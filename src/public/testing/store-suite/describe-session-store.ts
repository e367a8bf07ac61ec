import assert from 'node:assert/strict';
import type { NewSession } from '../../../stores/record.ts';
import { testFeed } from './feed.ts';
import { testGrants } from './grants.ts';
import {
  callConcurrently,
  createNewSession,
  type DefineTest,
  expectOutcome,
  type OpenStore,
  openPair,
  readUse,
  type SuiteRunner,
  suiteLimits,
} from './harness.ts';
import { testInboxes } from './inboxes.ts';
import { testClosing, testExpiry, testLifecycle } from './lifecycle.ts';
import { testListing, testTenancy } from './listing.ts';
import { testQuotas } from './quotas.ts';
import { testDocuments, testMarks, testResults, testState } from './stored-values.ts';

const sortOutcomes = (answers: readonly { readonly outcome: string }[]) => answers.map(({ outcome }) => outcome).sort();

const concerns = {
  lifecycle: testLifecycle,
  expiry: testExpiry,
  concurrency: testConcurrency,
  tenancy: testTenancy,
  listing: testListing,
  quotas: testQuotas,
  grants: testGrants,
  state: testState,
  results: testResults,
  marks: testMarks,
  inboxes: testInboxes,
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

function testConcurrency(test: DefineTest): void {
  test('a change based on an old version is stale and writes nothing', async ({ store, open }) => {
    const { id } = await open({ permissions: ['a', 'b'] });
    await store.update(id, 1, { permissions: ['a'] });
    const late = await expectOutcome(store.update(id, 1, { permissions: ['a', 'b', 'c'] }), 'stale');
    assert.equal(late.record.version, 2);
    assert.deepEqual((await store.get(id))?.permissions, ['a']);
  });

  test('of many concurrent changes, one wins', async (storeTest) => {
    const { id } = await storeTest.open();
    const stores = await openPair(storeTest);
    const answers = await callConcurrently(stores, (store, index) =>
      store.update(id, 1, { permissions: [String(index)] }),
    );
    assert.equal(answers.filter(({ outcome }) => outcome === 'updated').length, 1);
    const winner = answers.findIndex(({ outcome }) => outcome === 'updated');
    const record = await storeTest.store.get(id);
    assert.deepEqual([record?.version, record?.permissions], [2, [String(winner)]]);
  });

  test('of many concurrent creations of the same id or name, one succeeds', async (storeTest) => {
    const stores = await openPair(storeTest);
    const sameId = createNewSession();
    const ids = await callConcurrently(stores, (store) => store.create(sameId));
    assert.deepEqual(sortOutcomes(ids).slice(0, 2), ['created', 'exists']);
    const names = await callConcurrently(stores, (store) => store.create(createNewSession({ name: 'same' })));
    assert.deepEqual(sortOutcomes(names).slice(0, 2), ['created', 'exists']);
  });

  test('caps hold for concurrent creations', async (storeTest) => {
    const answers = await callConcurrently(await openPair(storeTest), (store) =>
      store.create(createNewSession(), { perUser: 3 }),
    );
    assert.equal(answers.filter(({ outcome }) => outcome === 'created').length, 3);
    assert.deepEqual(
      answers.find(({ outcome }) => outcome !== 'created'),
      { outcome: 'full', cap: 'perUser' },
    );
  });

  test('a parent has at most so many live children', async (storeTest) => {
    const stores = await openPair(storeTest);
    const { id: parentId } = await storeTest.open();
    const answers = await callConcurrently(stores, (store) =>
      store.create(createNewSession({ parentId }), { perParent: 3 }),
    );
    const children = answers.flatMap((answer) => (answer.outcome === 'created' ? [answer.record.id] : []));
    assert.equal(children.length, 3);
    const full = { outcome: 'full', cap: 'perParent' };
    assert.deepEqual(await stores[1].create(createNewSession({ parentId }), { perParent: 3 }), full);
    await stores[0].end(children[0] as string);
    assert.equal((await stores[1].create(createNewSession({ parentId }), { perParent: 3 })).outcome, 'created');
  });

  test('of many concurrent ends of a session, one succeeds', async (storeTest) => {
    const { id } = await storeTest.open();
    const answers = await callConcurrently(await openPair(storeTest), (store) => store.end(id));
    assert.equal(answers.filter(Boolean).length, 1);
  });

  test('an admission decided on an old version is stale, with the record as it is, and counts nothing', async (storeTest) => {
    const { id } = await storeTest.open({ permissions: ['a'] });
    const [store, other] = await openPair(storeTest);
    await other.update(id, 1, { permissions: [] });
    storeTest.advance(1000);
    const answer = await expectOutcome(store.admit({ id, version: 1, holdMs: 1000 }), 'stale');
    assert.deepEqual(answer.record, await store.get(id));
    assert.deepEqual(answer.record.permissions, []);
    assert.deepEqual(await readUse(store, id), { calls: 0, bytes: 0, underWay: 0 });
    assert.equal(answer.record.lastActiveAt, answer.record.createdAt);
    assert.equal((await store.admit({ id, version: 2 })).outcome, 'admitted');
  });

  test('a change in one store is visible in the other', async (storeTest) => {
    const [store, other] = await openPair(storeTest);
    const { id } = await storeTest.open({ name: 'shared' });
    assert.equal((await other.get(id))?.id, id);
    await other.state.set(id, 'k', 'v');
    assert.equal((await store.state.get(id, 'k'))?.value, 'v');
    await other.end(id);
    assert.deepEqual(await store.admit({ id }), { outcome: 'ended', reason: 'ended' });
  });
}
