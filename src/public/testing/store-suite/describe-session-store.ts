import assert from 'node:assert/strict';
import type { NewSession } from '../../../stores/record.ts';
import type { SessionFilter, SessionStore } from '../../../stores/store.ts';
import { testFeed } from './feed.ts';
import { testGrants } from './grants.ts';
import {
  callConcurrently,
  createNewSession,
  type DefineTest,
  expectOutcome,
  isInvalidRequest,
  type OpenStore,
  openPair,
  readUse,
  type SuiteRunner,
  suiteLimits,
} from './harness.ts';
import { testInboxes } from './inboxes.ts';
import { testClosing, testExpiry, testLifecycle } from './lifecycle.ts';
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

async function pages(store: SessionStore, filter: SessionFilter, limit: number): Promise<string[][]> {
  const all: string[][] = [];
  for (let after: string | null | undefined; after !== null; ) {
    const page = await store.list(filter, { limit, ...(after === undefined ? {} : { after }) });
    assert.ok(page.sessions.length <= limit, 'a page holds no more than asked for');
    all.push(page.sessions.map(({ id }) => id));
    after = page.next;
    assert.ok(all.length < 100, 'the pages come to an end');
  }
  return all;
}

function testListing(test: DefineTest): void {
  test('all pages together contain each session once, the oldest first', async ({ store, open, advance }) => {
    const ids: string[] = [];
    for (let index = 0; index < 7; index++) {
      ids.push((await open({ userId: index === 3 ? 'eve' : 'ada', ttlSeconds: 600 })).id);
      if (index % 3 !== 0) advance(1);
    }
    const inOrder = (await pages(store, {}, 100)).flat();
    assert.deepEqual([...inOrder].sort(), [...ids].sort());
    for (const limit of [1, 2, 3, 7]) assert.deepEqual((await pages(store, {}, limit)).flat(), inOrder);
    const records = (await store.list()).sessions;
    assert.deepEqual(
      records.map(({ createdAt }) => createdAt),
      records.map(({ createdAt }) => createdAt).sort((a, b) => a - b),
    );
    const adas = inOrder.filter((id) => id !== ids[3]);
    assert.deepEqual((await pages(store, { userId: 'ada' }, 2)).flat(), adas);
  });

  test('sessions that end or begin between two pages affect no others', async ({ store, open, advance }) => {
    const ids: string[] = [];
    for (let index = 0; index < 4; index++) {
      ids.push((await open()).id);
      advance(1);
    }
    const first = await store.list({}, { limit: 2 });
    await store.end(ids[1] as string);
    await store.end(ids[2] as string);
    const young = await open();
    const rest: string[] = [];
    for (let { next } = first; next !== null; ) {
      const page = await store.list({}, { limit: 2, after: next });
      rest.push(...page.sessions.map(({ id }) => id));
      next = page.next;
    }
    assert.deepEqual(rest, [ids[3], young.id]);
  });

  test('an invalid page cursor is refused', async ({ store }) => {
    for (const after of ['', 'x', '1', "1.a' OR 1=1", '1.*']) {
      await assert.rejects(store.list({}, { after }), isInvalidRequest, after);
    }
    for (const limit of [0, 1001, 1.5, Number.NaN]) await assert.rejects(store.list({}, { limit }), isInvalidRequest);
  });

  test('a session is found by id, else by name, else by the beginning of the id', async ({ store, open }) => {
    const one = await open({ id: 'abcdef01', name: 'abcd' });
    const two = await open({ id: 'abcdef02', name: 'task#049', userId: 'eve' });
    const ids = async (reference: string, filter = {}) => (await store.find(reference, filter)).map(({ id }) => id);
    assert.deepEqual(await store.find('abcdef01'), [one]);
    assert.deepEqual(await ids('abcd'), [one.id], 'a name outranks the beginning of an id');
    assert.deepEqual(await ids('task#049'), [two.id]);
    assert.deepEqual(await ids('abcdef02'), [two.id]);
    assert.deepEqual(await ids('abcdef0'), [one.id, two.id]);
    assert.deepEqual(await ids('abc'), [], 'three characters are too few');
    assert.deepEqual(await ids('abcdef0', { userId: 'eve' }), [two.id]);
    assert.deepEqual(await ids('task#049', { userId: 'ada' }), []);
    assert.deepEqual(await ids('abcdef02', { userId: 'ada' }), []);
    assert.deepEqual(await ids('abcdef02', { workspaceId: 'kitchen' }), []);
    for (const odd of ['ab%%', 'ab__', 'abc*', '[abcd', 'abcd\u0000', '', 'abcd'.repeat(1000)])
      assert.deepEqual(await ids(odd), [], odd);
  });

  test('a name that several users have is ambiguous without the user', async ({ store, open }) => {
    const ada = await open({ name: 'main', userId: 'ada' });
    const eve = await open({ name: 'main', userId: 'eve' });
    assert.equal((await store.find('main')).length, 2);
    assert.deepEqual(await store.find('main', { userId: 'ada' }), [ada]);
    await store.end(ada.id);
    assert.deepEqual(await store.find('main'), [eve]);
  });
}

function testTenancy(test: DefineTest): void {
  test('a list for one user or workspace contains no sessions of others', async ({ store, open }) => {
    const ada = await open({ userId: 'ada', workspaceId: 'garden' });
    const eve = await open({ userId: 'eve', workspaceId: 'garden' });
    const adas = await open({ userId: 'ada', workspaceId: null });
    await open({ userId: 'ada:', workspaceId: 'garden:' });
    await open({ userId: 'garden', workspaceId: 'ada' });
    const ids = async (filter: object) => (await store.list(filter)).sessions.map(({ id }) => id).sort();
    assert.deepEqual(await ids({ userId: 'ada' }), [ada.id, adas.id].sort());
    assert.deepEqual(await ids({ workspaceId: 'garden' }), [ada.id, eve.id].sort());
    assert.deepEqual(await ids({ userId: 'ada', workspaceId: 'garden' }), [ada.id]);
    assert.deepEqual(await ids({ userId: 'nobody' }), []);
    assert.deepEqual(await ids({ workspaceId: 'nowhere' }), []);
    assert.equal((await ids({})).length, 5);
  });

  test('children are found by their parent', async ({ store, open }) => {
    const parent = await open();
    const child = await open({ parentId: parent.id });
    await open({ parentId: child.id });
    const { sessions } = await store.list({ parentId: parent.id });
    assert.deepEqual(sessions, [child]);
  });

  test('a name is unique among the live sessions of one user', async ({ store, open, advance }) => {
    const first = await open({ name: 'main' });
    assert.deepEqual(await store.create(createNewSession({ name: 'main' })), { outcome: 'exists', what: 'name' });
    await open({ name: 'main', userId: 'eve' });
    await store.end(first.id);
    const second = await open({ name: 'main', ttlSeconds: 1 });
    advance(1000);
    const third = await open({ name: 'main' });
    assert.notEqual(second.id, third.id);
    await store.sweep();
    assert.deepEqual((await store.find('main', { userId: 'ada' }))[0]?.id, third.id);
    assert.deepEqual(await store.create(createNewSession({ name: 'main' })), { outcome: 'exists', what: 'name' });
  });

  test('the cap of a user counts only that user’s live sessions', async ({ store, open, advance }) => {
    await open({ userId: 'ada', ttlSeconds: 1 });
    const ended = await open({ userId: 'ada' });
    await open({ userId: 'eve' });
    assert.deepEqual(await store.create(createNewSession(), { perUser: 2 }), { outcome: 'full', cap: 'perUser' });
    await store.end(ended.id);
    assert.equal((await store.create(createNewSession(), { perUser: 2 })).outcome, 'created');
    advance(1000);
    assert.equal((await store.create(createNewSession(), { perUser: 2 })).outcome, 'created');
    assert.deepEqual(await store.create(createNewSession(), { perUser: 2 }), { outcome: 'full', cap: 'perUser' });
  });

  test('a session whose end was moved forward counts for no cap after that end', async ({ store, open, advance }) => {
    const { id, createdAt } = await open();
    await store.admit({ id, holdMs: 30_000 });
    await store.update(id, 1, { endsAt: createdAt + 1000 });
    advance(999);
    assert.deepEqual(await store.create(createNewSession(), { perUser: 1 }), { outcome: 'full', cap: 'perUser' });
    advance(1);
    assert.equal((await store.create(createNewSession(), { perUser: 1, inAll: 1 })).outcome, 'created');
    assert.equal((await store.remains(id))?.reason, 'expired');
  });

  test('the total cap counts all sessions, and evicts or refuses as the store declares', async (storeTest) => {
    const { store, open, advance } = storeTest;
    const expired = await open({ userId: 'eve', ttlSeconds: 1 });
    const busy = await open({ userId: 'bob' });
    await store.admit({ id: busy.id, holdMs: 60_000 });
    advance(1000);
    const idlest = await open({ userId: 'ada' });
    advance(1);
    const fresh = await open({ userId: 'eve' });
    assert.equal(
      (await store.create(createNewSession(), { inAll: 4 })).outcome,
      'created',
      'the expired one does not count',
    );
    const last = await store.create(createNewSession(), { inAll: 4 });
    assert.equal((await store.remains(expired.id))?.reason, 'expired');
    if (store.capabilities.whenFull === 'refuse') {
      assert.deepEqual(last, { outcome: 'full', cap: 'inAll' });
      assert.ok(await store.get(idlest.id));
      return;
    }
    assert.equal(last.outcome, 'created');
    assert.equal((await store.remains(idlest.id))?.reason, 'evicted');
    for (const { id } of [busy, fresh]) assert.ok(await store.get(id));
    assert.deepEqual(
      await store.create(createNewSession({ userId: 'zoe' }), { inAll: 4, perUser: 1 }).then((a) => a.outcome),
      'created',
    );
    assert.ok(await store.get(busy.id), 'a session with a call under way is never put out');
  });

  test('state and marks belong to one session', async ({ store, open }) => {
    const [ada, eve] = [await open({ id: 'aaaa-1' }), await open({ id: 'aaaa-1-2' })];
    await store.state.set(ada.id, '2:k', 'hers');
    await store.marks.put(ada.id, '2:k', 'hers');
    assert.equal(await store.state.get(eve.id, 'k'), undefined);
    assert.equal(await store.state.get(eve.id, '2:k'), undefined);
    assert.equal(await store.marks.get(eve.id, '2:k'), undefined);
    await store.end(eve.id);
    assert.equal((await store.state.get(ada.id, '2:k'))?.value, 'hers');
  });
}
