import assert from 'node:assert/strict';
import type { Admission } from '../../../stores/admission.ts';
import type { SessionStore } from '../../../stores/store.ts';
import {
  acquireLease,
  callConcurrently,
  type DefineTest,
  expectOutcome,
  isAdmitted,
  isInvalidRequest,
  readUse,
} from './harness.ts';

/** Counts how many more single calls are admitted, up to ten. */
async function countAdmissions(store: SessionStore, request: Admission): Promise<number> {
  let count = 0;
  while (count < 10 && (await isAdmitted(store, request))) count++;
  return count;
}

/** Tests leases that stand for several calls, and the return of calls that were not made. */
export function testGrants(test: DefineTest): void {
  testLeaseSizes(test);
  testUnusedCalls(test);
  testLostLeases(test);
}

function testLeaseSizes(test: DefineTest): void {
  test('a lease counts for as many calls as it says in every scope', async ({ store, open, advance }) => {
    const [one, two] = [await open(), await open()];
    const eve = await open({ userId: 'eve' });
    const limits = {
      session: { concurrentCalls: 4 },
      user: { concurrentCalls: 5 },
      workspace: { concurrentCalls: 6 },
    };
    const holdMs = 30_000;
    const lease = await acquireLease(store, { id: one.id, calls: 9, places: 3, limits });
    assert.deepEqual(await readUse(store, one.id), { calls: 9, bytes: 0, underWay: 3 });
    const refused = await store.admit({ id: one.id, places: 2, holdMs, limits });
    const quota = { outcome: 'quota', limit: 'concurrentCalls', retryAfterMs: null };
    assert.deepEqual(refused, { ...quota, scope: 'session', allowed: 4 });
    assert.deepEqual(await store.admit({ id: two.id, places: 3, holdMs, limits }), {
      ...quota,
      scope: 'user',
      allowed: 5,
    });
    assert.deepEqual(await store.admit({ id: eve.id, places: 4, holdMs, limits }), {
      ...quota,
      scope: 'workspace',
      allowed: 6,
    });
    await acquireLease(store, { id: one.id, limits });
    assert.ok(await isAdmitted(store, { id: one.id, calls: 1, places: 0, holdMs, limits }), 'counts for none');
    assert.ok(await isAdmitted(store, { id: one.id, calls: 0, holdMs, limits }), 'nor does what is no call');
    await acquireLease(store, { id: eve.id, places: 2, limits });
    assert.deepEqual(await readUse(store, one.id), { calls: 11, bytes: 0, underWay: 4 });
    await store.release(one.id, lease);
    assert.deepEqual(await readUse(store, one.id), { calls: 11, bytes: 0, underWay: 1 });
    await acquireLease(store, { id: two.id, calls: 0, places: 3, limits });
    assert.ok(!(await isAdmitted(store, { id: eve.id, holdMs, limits })));
    await store.end(two.id);
    await acquireLease(store, { id: eve.id, places: 2, limits });
    advance(30_000);
    assert.equal((await store.usage(eve.id))?.underWay, 0);
    await acquireLease(store, { id: eve.id, places: 4, limits });
  });

  test('concurrent leases never exceed a limit', async ({ store, open, another }) => {
    const other = another === undefined ? store : await another();
    const { id } = await open();
    const request = { id, calls: 3, places: 3, holdMs: 30_000, limits: { user: { concurrentCalls: 10 } } };
    const answers = await callConcurrently([store, other], (each) => each.admit(request), 12);
    assert.equal(answers.filter(({ outcome }) => outcome === 'admitted').length, 3);
    assert.deepEqual(await readUse(store, id), { calls: 9, bytes: 0, underWay: 9 });
  });

  test('a renewed lease can be made smaller, not larger', async ({ store, open, advance }) => {
    const { id } = await open();
    const limits = { user: { concurrentCalls: 4 } };
    const lease = await acquireLease(store, { id, places: 4, limits });
    assert.equal(await store.renew(id, lease, 30_000), true);
    assert.equal((await store.usage(id))?.underWay, 4);
    assert.equal(await store.renew(id, lease, 30_000, { places: 1 }), true);
    assert.equal((await store.usage(id))?.underWay, 1);
    assert.equal(await store.renew(id, lease, 30_000, { places: 3 }), true);
    assert.equal((await store.usage(id))?.underWay, 1);
    await acquireLease(store, { id, places: 3, holdMs: 1000, limits });
    assert.equal(await store.renew(id, lease, 30_000, { places: 0 }), true);
    assert.equal((await store.usage(id))?.underWay, 3);
    advance(29_999);
    assert.equal(await store.renew(id, lease, 30_000, { places: 1 }), true, 'it is still held');
    assert.equal((await store.usage(id))?.underWay, 0);
  });
}

function testUnusedCalls(test: DefineTest): void {
  test('the use names the leases that are held, with the calls that they may return', async ({
    store,
    open,
    advance,
  }) => {
    const { id } = await open();
    const leases = async () => {
      const use = await store.usage(id);
      return Object.fromEntries(use?.leases.map(({ lease, calls, places }) => [lease, { calls, places }]) ?? []);
    };
    const many = await acquireLease(store, { id, calls: 5, places: 3 });
    const one = await acquireLease(store, { id, holdMs: 40_000 });
    await acquireLease(store, { id, calls: 0 });
    await store.admit({ id });
    const held = { [many]: { calls: 5, places: 3 }, [one]: { calls: 1, places: 1 } };
    assert.deepEqual(await leases(), held);
    assert.equal(await store.renew(id, many, 30_000, { bytes: 3 }), true);
    assert.deepEqual(await leases(), held, 'nothing was said about the calls');
    assert.equal(await store.renew(id, many, 30_000, { unusedCalls: 0, places: 2 }), true);
    assert.deepEqual(await leases(), { ...held, [many]: { calls: 0, places: 2 } }, 'all of them were made');
    advance(30_000);
    assert.deepEqual(await leases(), { [one]: { calls: 1, places: 1 } });
    await store.release(id, one);
    assert.deepEqual(await leases(), {});
  });

  test('calls that were not made are returned to the scopes that the limits name', async ({ store, open }) => {
    const { id } = await open();
    const limits = { session: {}, user: { totalCalls: 8 }, workspace: { totalCalls: 9 } };
    const lease = await acquireLease(store, { id, calls: 5, limits });
    const other = await acquireLease(store, { id, calls: 3, limits });
    assert.equal(await countAdmissions(store, { id, limits }), 0);
    assert.equal(await store.renew(id, lease, 30_000, { unusedCalls: 2, bytes: 5, limits }), true);
    assert.deepEqual(await readUse(store, id), { calls: 6, bytes: 5, underWay: 2 });
    assert.equal(await countAdmissions(store, { id, limits }), 2);
    await store.release(id, lease, { unusedCalls: 3, bytes: 5, limits });
    assert.deepEqual(await readUse(store, id), { calls: 8, bytes: 10, underWay: 1 }, 'the others had counted as made');
    await store.release(id, other, { unusedCalls: 3, limits: { user: limits.user } });
    assert.deepEqual(await readUse(store, id), { calls: 5, bytes: 10, underWay: 0 });
    const answer = await store.admit({ id, calls: 2, limits });
    assert.ok(answer.outcome === 'quota' && answer.scope === 'workspace', 'nothing was given back to it');
    assert.equal(await countAdmissions(store, { id, limits: { user: limits.user } }), 3);
  });

  test('returning calls that were not made restores the rate limit', async ({ store, open }) => {
    const { id } = await open();
    for (const scope of ['session', 'user', 'workspace'] as const) {
      const limits = { [scope]: { callsPerMinute: 7, burst: 5 } };
      const lease = await acquireLease(store, { id, calls: 5, limits });
      await store.release(id, lease, { unusedCalls: 2, limits });
      assert.equal(await countAdmissions(store, { id, limits }), 2, scope);
      const refused = await expectOutcome(store.admit({ id, limits }), 'quota');
      assert.deepEqual([refused.scope, refused.retryAfterMs], [scope, 8572]);
    }
  });

  test('no more calls are returned than the lease took', async ({ store, open }) => {
    const { id } = await open();
    const limits = { user: { totalCalls: 9, callsPerMinute: 9 } };
    assert.ok(await isAdmitted(store, { id, calls: 4, limits }));
    const [one, two] = [
      await acquireLease(store, { id, calls: 2, limits }),
      await acquireLease(store, { id, calls: 3, limits }),
    ];
    await store.release(id, one, { unusedCalls: 8, limits });
    await store.release(id, one, { unusedCalls: 8, limits });
    assert.equal((await store.usage(id))?.calls, 7);
    await store.renew(id, two, 30_000, { unusedCalls: 2, limits });
    await store.release(id, two, { unusedCalls: 3, limits });
    assert.equal((await store.usage(id))?.calls, 5);
    assert.equal(await countAdmissions(store, { id, limits }), 4);
  });

  test('calls of yesterday are not returned today', async ({ store, open, advance }) => {
    const { id, createdAt } = await open({ ttlSeconds: 200_000, lifetimeSeconds: 200_000 });
    const limits = { user: { totalCalls: 5 } };
    advance(86_400_000 - (createdAt % 86_400_000) - 1);
    const lease = await acquireLease(store, { id, calls: 3, limits });
    advance(1);
    assert.ok(await isAdmitted(store, { id, calls: 4, limits }));
    await store.release(id, lease, { unusedCalls: 3, limits });
    assert.equal(await countAdmissions(store, { id, limits }), 1);
    assert.equal((await store.usage(id))?.calls, 5);
  });
}

function testLostLeases(test: DefineTest): void {
  test('a late report does not extend the life of a session', async ({ store, open, advance }) => {
    const { id, createdAt } = await open({ ttlSeconds: 60 });
    const lastActive = async () => (await store.get(id))?.lastActiveAt;
    const lease = await acquireLease(store, { id });
    advance(20_000);
    assert.equal(await store.renew(id, lease, 30_000, { agoMs: 15_000 }), true);
    assert.equal(await lastActive(), createdAt + 5000);
    await store.release(id, lease, { agoMs: 18_000 });
    const record = await store.get(id);
    assert.deepEqual([record?.lastActiveAt, record?.expiresAt], [createdAt + 5000, createdAt + 65_000]);
    advance(44_999);
    assert.ok(await store.get(id));
    advance(1);
    assert.deepEqual(await store.admit({ id }), { outcome: 'expired' });

    const short = await open({ ttlSeconds: 1 });
    const held = await acquireLease(store, { id: short.id });
    advance(20_000);
    assert.equal(await store.sweep(), 1);
    await store.release(short.id, held, { agoMs: 19_500 });
    assert.deepEqual(await store.admit({ id: short.id }), { outcome: 'expired' });
    assert.equal(await store.sweep(), 1);
  });

  test('a lost lease changes no counter', async ({ store, open, advance }) => {
    const [one, two] = [await open(), await open()];
    const limits = { user: { totalCalls: 6, totalBytes: 6 } };
    const spent = { bytes: 5, unusedCalls: 3, limits };
    const lease = await acquireLease(store, { id: one.id, calls: 3, limits });
    await store.release(two.id, lease, spent);
    assert.equal(await store.renew(two.id, lease, 1000, spent), false);
    advance(30_000);
    await store.release(one.id, lease, spent);
    assert.equal(await store.renew(one.id, lease, 1000, spent), false);
    assert.deepEqual(await readUse(store, one.id), { calls: 3, bytes: 0, underWay: 0 });
    const record = await store.get(one.id);
    assert.equal(record?.lastActiveAt, record?.createdAt);
    const ended = await acquireLease(store, { id: two.id, calls: 1, limits });
    await store.end(two.id);
    await store.release(two.id, ended, spent);
    assert.ok(await isAdmitted(store, { id: one.id, bytes: 1, limits }));
    assert.equal(await countAdmissions(store, { id: one.id, limits }), 1);
  });

  test('invalid leases are refused', async ({ store, open }) => {
    const { id } = await open();
    const lease = await acquireLease(store, { id });
    for (const wrong of [{ places: 1 }, { places: -1, holdMs: 1 }, { places: 1_000_001, holdMs: 1 }]) {
      await assert.rejects(store.admit({ id, ...wrong }), isInvalidRequest, JSON.stringify(wrong));
    }
    for (const spent of [
      { bytes: -1 },
      { unusedCalls: -1 },
      { unusedCalls: 1_000_001 },
      { agoMs: -1 },
      { agoMs: 0.5 },
      { limits: { user: { callsPerMinute: 0 } } },
    ]) {
      await assert.rejects(store.renew(id, lease, 1000, spent), isInvalidRequest, JSON.stringify(spent));
      await assert.rejects(store.release(id, lease, spent), isInvalidRequest, JSON.stringify(spent));
    }
    await assert.rejects(store.renew(id, lease, 1000, { places: -1 }), isInvalidRequest);
    const places: object = { places: 0 };
    await assert.rejects(store.release(id, lease, places), isInvalidRequest, 'what is given back has no size');
    assert.deepEqual(await readUse(store, id), { calls: 1, bytes: 0, underWay: 1 });
  });
}
