import assert from 'node:assert/strict';
import { isAmbitError } from '../../../errors.ts';
import type { SessionChange } from '../../../stores/record.ts';
import {
  acquireLease,
  createNewSession,
  type DefineTest,
  expectOutcome,
  isInvalidRequest,
  readUse,
} from './harness.ts';

export function testLifecycle(test: DefineTest): void {
  test('a created session is read back complete', async ({ store }) => {
    const session = createNewSession({ name: 'task#049', servers: ['notes'], parentId: 'abc-1' });
    const created = await expectOutcome(store.create(session), 'created');
    const { lifetimeSeconds, ...given } = session;
    const { createdAt } = created.record;
    assert.deepEqual(created.record, {
      ...given,
      version: 1,
      createdAt,
      lastActiveAt: createdAt,
      endsAt: createdAt + lifetimeSeconds * 1000,
      expiresAt: createdAt + session.ttlSeconds * 1000,
    });
    assert.deepEqual(await store.get(session.id), created.record);
  });

  test('a record that was read is a copy', async ({ store, open }) => {
    const record = await open({ metadata: { tags: ['a'] } });
    (record.metadata['tags'] as string[]).push('b');
    assert.deepEqual((await store.get(record.id))?.metadata, { tags: ['a'] });
  });

  test('empty lists and objects, and every character, survive', async ({ store, open }) => {
    const metadata = { none: [], nothing: {}, text: 'ü \u2028 😀 "\\', zero: 0, small: 1e-7, big: 2 ** 53 };
    const { id } = await open({ metadata, permissions: [], name: 'naïve 😀', userId: 'idp.example|ü:{1}' });
    const record = await store.get(id);
    assert.deepEqual(record?.metadata, metadata);
    assert.deepEqual(record.permissions, []);
    assert.equal(record.name, 'naïve 😀');
    assert.equal(record.userId, 'idp.example|ü:{1}');
  });

  test('an id is given only once, also to another user', async ({ store, open }) => {
    const { id } = await open();
    assert.deepEqual(await store.create(createNewSession({ id, userId: 'eve' })), { outcome: 'exists', what: 'id' });
    assert.equal((await store.get(id))?.userId, 'ada');
  });

  test('invalid ids are refused', async ({ store }) => {
    for (const id of ['', 'A', 'a_b', '../x', 'a\u0000', 'x'.repeat(129), '-a', '*']) {
      await assert.rejects(store.create(createNewSession({ id })), isInvalidRequest, id);
      await assert.rejects(store.get(id), isInvalidRequest, id);
    }
    await assert.rejects(store.create(createNewSession({ userId: '\ud800' })), isInvalidRequest);
    await assert.rejects(store.create(createNewSession({ ttlSeconds: 0 })), isInvalidRequest);
    await assert.rejects(store.create(createNewSession({ parentId: '../x' })), isInvalidRequest);
  });

  test('every method reports an unknown session as missing', async ({ store }) => {
    assert.equal(await store.get('unknown'), undefined);
    assert.equal(await store.remains('unknown'), undefined);
    assert.deepEqual(await store.update('unknown', 1, {}), { outcome: 'missing' });
    assert.deepEqual(await store.admit({ id: 'unknown' }), { outcome: 'missing' });
    assert.equal(await store.end('unknown'), false);
    assert.equal(await store.usage('unknown'), undefined);
    assert.equal(await store.renew('unknown', 'lease', 1000), false);
    await store.release('unknown', 'lease');
  });

  test('a change raises the version and nothing else', async ({ store, open }) => {
    const before = await open({ permissions: ['a', 'b'] });
    const updated = await store.update(before.id, 1, { permissions: ['a'], servers: ['notes'] });
    const after = { ...before, version: 2, permissions: ['a'], servers: ['notes'] };
    assert.deepEqual(updated, { outcome: 'updated', record: after });
    assert.deepEqual(await store.get(before.id), after);
  });

  test('the owner of a session cannot change, and its life cannot be extended', async ({ store, open }) => {
    const { id, endsAt } = await open();
    const changes = [{ userId: 'eve' }, { ttlSeconds: 61 }, { endsAt: endsAt + 1 }, { version: 9 }] as SessionChange[];
    for (const change of changes)
      await assert.rejects(store.update(id, 1, change), isInvalidRequest, JSON.stringify(change));
    assert.equal((await store.get(id))?.version, 1);
  });

  test('an ended session is gone, and its tombstone says why', async ({ store, open }) => {
    const record = await open();
    assert.equal(await store.end(record.id, 'revoked'), true);
    assert.equal(await store.end(record.id), false);
    assert.equal(await store.get(record.id), undefined);
    const remains = await store.remains(record.id);
    assert.equal(remains?.reason, 'revoked');
    assert.deepEqual(remains.record.tokenDigests, ['d1']);
    assert.deepEqual(await store.admit({ id: record.id }), { outcome: 'ended', reason: 'revoked' });
  });

  test('a late write does not revive an ended session', async ({ store, open, advance }) => {
    const { id } = await open();
    const lease = await acquireLease(store, { id });
    await store.end(id);
    const gone = { outcome: 'ended', reason: 'ended' };
    assert.deepEqual(await store.update(id, 1, { permissions: [] }), gone);
    assert.deepEqual(await store.state.set(id, 'k', 1), gone);
    assert.deepEqual(await store.marks.put(id, 'k'), gone);
    assert.equal(await store.renew(id, lease, 30_000), false);
    await store.release(id, lease, { bytes: 10 });
    assert.deepEqual(await store.create(createNewSession({ id })), { outcome: 'exists', what: 'id' });
    advance(599_000);
    await store.sweep();
    assert.deepEqual(await store.create(createNewSession({ id })), { outcome: 'exists', what: 'id' });
    assert.equal(await store.get(id), undefined);
    assert.deepEqual((await store.list()).sessions, []);
  });

  test('a reused id carries nothing over from the earlier session, swept or not', async (storeTest) => {
    const { store, open, advance } = storeTest;
    for (const [id, sweep] of [
      ['again-1', async () => 0],
      ['again-2', store.sweep],
    ] as const) {
      await open({ id, name: 'first' });
      await store.state.set(id, 'key', 'of the first');
      await store.marks.put(id, 'mark', 'of the first');
      await store.admit({ id, holdMs: 30_000 });
      advance(600_000 + 3_600_000);
      await sweep();
      await open({ id, userId: 'eve' });
      assert.equal(await store.state.get(id, 'key'), undefined);
      assert.deepEqual((await store.state.list(id)).keys, []);
      assert.equal(await store.marks.get(id, 'mark'), undefined);
      assert.deepEqual(await readUse(store, id), { calls: 0, bytes: 0, underWay: 0 });
      assert.deepEqual((await store.list({ userId: 'ada' })).sessions, []);
      assert.deepEqual(await store.find('first'), []);
    }
  });
}

export function testExpiry(test: DefineTest): void {
  test('a session lives to the last millisecond of its ttl, and not one longer', async ({ store, open, advance }) => {
    const { id } = await open({ ttlSeconds: 60 });
    advance(59_999);
    assert.ok(await store.get(id));
    advance(1);
    assert.equal(await store.get(id), undefined);
    assert.deepEqual(await store.admit({ id }), { outcome: 'expired' });
    assert.deepEqual(await store.update(id, 1, {}), { outcome: 'expired' });
    assert.equal(await store.end(id), false);
    assert.equal((await store.remains(id))?.reason, 'expired');
    assert.deepEqual((await store.list()).sessions, []);
    assert.deepEqual(await store.find(id), []);
  });

  test('calls keep a session alive, reading does not', async ({ store, open, advance }) => {
    const { id, createdAt } = await open({ ttlSeconds: 60 });
    advance(59_999);
    const used = await expectOutcome(store.admit({ id, calls: 0 }), 'admitted');
    assert.equal(used.lastActiveAt, createdAt + 59_999);
    assert.equal(used.expiresAt, createdAt + 119_999);
    advance(30_000);
    assert.equal((await store.get(id))?.lastActiveAt, createdAt + 59_999);
    await store.state.get(id, 'k');
    await store.update(id, 1, { permissions: [] });
    advance(29_999);
    assert.ok(await store.get(id));
    advance(1);
    assert.deepEqual(await store.admit({ id }), { outcome: 'expired' });
  });

  test('calls do not keep a session alive beyond its lifetime', async ({ store, open, advance }) => {
    const { id, endsAt } = await open({ ttlSeconds: 60, lifetimeSeconds: 100 });
    advance(50_000);
    const used = await expectOutcome(store.admit({ id, holdMs: 300_000 }), 'admitted');
    assert.equal(used.expiresAt, endsAt);
    advance(49_999);
    assert.ok(await store.get(id));
    advance(1);
    assert.deepEqual(await store.admit({ id }), { outcome: 'expired' });
  });

  test('a running call keeps its session alive until its lease expires', async ({ store, open, advance }) => {
    const { id } = await open({ ttlSeconds: 1 });
    const lease = await acquireLease(store, { id });
    advance(29_999);
    assert.equal(await store.renew(id, lease, 30_000), true);
    advance(29_999);
    assert.ok(await store.get(id));
    await store.release(id, lease);
    advance(999);
    assert.ok(await store.get(id));
    advance(1);
    assert.deepEqual(await store.admit({ id }), { outcome: 'expired' });

    const crashed = await open({ ttlSeconds: 1 });
    await store.admit({ id: crashed.id, holdMs: 30_000 });
    advance(30_000);
    assert.deepEqual(await store.admit({ id: crashed.id }), { outcome: 'expired' });
  });

  test('a shorter ttl counts from the last use, an earlier end at once', async ({ store, open, advance }) => {
    const { id } = await open({ ttlSeconds: 60 });
    advance(10_000);
    await store.update(id, 1, { ttlSeconds: 5 });
    assert.deepEqual(await store.admit({ id }), { outcome: 'expired' });
    const second = await open();
    await store.update(second.id, 1, { endsAt: 0 });
    assert.deepEqual(await store.admit({ id: second.id }), { outcome: 'expired' });
    assert.equal((await store.remains(second.id))?.reason, 'expired');
  });

  test('sweeping removes expired sessions once, and changes no answer', async ({ store, open, advance }) => {
    const { id } = await open({ ttlSeconds: 1 });
    const kept = await open({ ttlSeconds: 60 });
    advance(1000);
    assert.equal(await store.sweep(), 1);
    assert.equal(await store.sweep(), 0);
    assert.deepEqual(await store.admit({ id }), { outcome: 'expired' });
    assert.equal((await store.remains(id))?.reason, 'expired');
    assert.ok(await store.get(kept.id));
  });

  test('an expired lease keeps no session alive, swept or not', async ({ store, open, advance }) => {
    for (const sweep of [async () => 0, store.sweep]) {
      const { id, createdAt } = await open({ ttlSeconds: 20 });
      const other = await open({ ttlSeconds: 20 });
      await store.admit({ id, holdMs: 4000 });
      await acquireLease(store, { id: other.id, holdMs: 8000 });
      advance(4000);
      await sweep();
      const shorter = await expectOutcome(store.update(id, 1, { ttlSeconds: 1 }), 'updated');
      assert.equal(shorter.record.expiresAt, createdAt + 1000);
      assert.deepEqual(await store.admit({ id }), { outcome: 'expired' });
      const underWay = await expectOutcome(store.update(other.id, 1, { ttlSeconds: 1 }), 'updated');
      assert.equal(underWay.record.expiresAt, other.createdAt + 8000, 'one that has not still does');
    }
  });

  test('a tombstone holds the last state of the record, swept or not', async ({ store, open, advance }) => {
    const [ended, expired] = [await open({ ttlSeconds: 1 }), await open({ ttlSeconds: 1 })];
    for (const { id } of [ended, expired]) await store.admit({ id, holdMs: 4000 });
    const last = await Promise.all([ended, expired].map(({ id }) => store.get(id)));
    assert.equal(last[0]?.expiresAt, ended.createdAt + 4000);
    await store.end(ended.id);
    advance(4000);
    const remains = async () => Promise.all([ended, expired].map(async ({ id }) => (await store.remains(id))?.record));
    assert.deepEqual(await remains(), last);
    await store.sweep();
    assert.deepEqual(await remains(), last);
  });

  test('sweeping finds a session that was used again, once it has expired', async ({ store, open, advance }) => {
    const { id } = await open({ ttlSeconds: 10 });
    advance(9000);
    await store.admit({ id });
    advance(2000);
    assert.equal(await store.sweep(), 0);
    advance(8000);
    assert.equal(await store.sweep(), 1);
  });

  test('sweeping finds a session whose lease was released early', async ({ store, open, advance }) => {
    const { id } = await open({ ttlSeconds: 1 });
    const lease = await acquireLease(store, { id, holdMs: 60_000 });
    advance(2000);
    assert.equal(await store.sweep(), 0);
    await store.release(id, lease);
    advance(1000);
    assert.equal(await store.sweep(), 1);
  });

  test('a tombstone stays until one hour after the planned end of the session', async ({ store, open, advance }) => {
    const { id } = await open({ lifetimeSeconds: 600 });
    await store.end(id);
    advance(600_000 + 3_600_000 - 1);
    await store.sweep();
    assert.deepEqual(await store.admit({ id }), { outcome: 'ended', reason: 'ended' });
    advance(1);
    assert.deepEqual(await store.admit({ id }), { outcome: 'missing' });
    assert.equal(await store.remains(id), undefined);
  });
}

export function testClosing(test: DefineTest): void {
  test('a store describes its capabilities and answers a ping', async ({ store }) => {
    const { durable, shared, whenFull } = store.capabilities;
    assert.ok(['no', 'disk', 'server'].includes(durable));
    assert.ok(['process', 'machine', 'network'].includes(shared));
    assert.ok(['evict', 'refuse'].includes(whenFull));
    await store.ping();
  });

  test('a closed store refuses everything, and closing twice is fine', async ({ store, open }) => {
    const { id } = await open();
    await store.close();
    await store.close();
    const asked = [
      () => store.create(createNewSession()),
      () => store.get(id),
      () => store.remains(id),
      () => store.update(id, 1, {}),
      () => store.end(id),
      () => store.list(),
      () => store.find(id),
      () => store.admit({ id }),
      () => store.renew(id, 'lease', 1000),
      () => store.release(id, 'lease'),
      () => store.usage(id),
      () => store.state.get(id, 'k'),
      () => store.state.set(id, 'k', 1),
      () => store.state.list(id),
      () => store.state.delete(id, 'k'),
      () => store.marks.put(id, 'k'),
      () => store.marks.get(id, 'k'),
      () => store.marks.delete(id, 'k'),
      () => store.documents.get('things', 'k'),
      () => store.documents.put('things', 'k', 't'),
      () => store.documents.list('things'),
      () => store.documents.delete('things', 'k'),
      () => store.sweep(),
      () => store.ping(),
    ];
    for (const ask of asked) {
      await assert.rejects(ask(), (error) => isAmbitError(error) && error.code === 'STORE_UNAVAILABLE', String(ask));
    }
  });

  test('requests made before closing are finished', async ({ store, another, open }) => {
    if (another === undefined) return;
    const other = await another();
    const { id } = await open();
    const writes = Array.from({ length: 5 }, (_, index) => store.state.set(id, `k${index}`, index));
    const closed = store.close();
    const answers = await Promise.all(writes);
    await closed;
    assert.ok(answers.every(({ outcome }) => outcome === 'written'));
    assert.equal((await other.state.list(id)).keys.length, 5);
  });

  test('a durable store keeps every answered write', async ({ store, another, open }) => {
    if (another === undefined || store.capabilities.durable === 'no') return;
    const record = await open({ name: 'lasting' });
    await store.state.set(record.id, 'k', { deep: [1] });
    await store.marks.put(record.id, 'm', 'v');
    await store.documents.put('things', 'k', 'text');
    const limits = { session: { totalCalls: 1 }, user: { totalCalls: 1 } };
    await store.admit({ id: record.id, limits });
    await store.close();
    const next = await another();
    assert.deepEqual(await next.find('lasting'), [{ ...record, lastActiveAt: record.lastActiveAt }]);
    assert.deepEqual((await next.state.get(record.id, 'k'))?.value, { deep: [1] });
    assert.equal(await next.marks.get(record.id, 'm'), 'v');
    assert.equal((await next.documents.get('things', 'k'))?.text, 'text');
    assert.equal((await next.admit({ id: record.id, limits })).outcome, 'quota', 'counters are kept too');
  });
}
