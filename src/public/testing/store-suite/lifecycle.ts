import assert from 'node:assert/strict';
import { isAmbitError } from '../../../errors.ts';
import type { SessionChange } from '../../../stores/record.ts';
import { draft, type Tell } from './harness.ts';

const invalid = (error: unknown) => isAmbitError(error) && error.code === 'REQUEST_INVALID';

export function lifecycle(tell: Tell): void {
  tell('what was created comes back whole', async ({ store }) => {
    const session = draft({ name: 'task#049', servers: ['notes'], parentId: 'abc-1' });
    const created = await store.create(session);
    assert.ok(created.outcome === 'created');
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

  tell('what comes back is a copy', async ({ store, open }) => {
    const record = await open({ metadata: { tags: ['a'] } });
    (record.metadata['tags'] as string[]).push('b');
    assert.deepEqual((await store.get(record.id))?.metadata, { tags: ['a'] });
  });

  tell('empty lists and objects, and every character, survive', async ({ store, open }) => {
    const metadata = { none: [], nothing: {}, text: 'ü \u2028 😀 "\\', zero: 0, small: 1e-7, big: 2 ** 53 };
    const { id } = await open({ metadata, permissions: [], name: 'naïve 😀', userId: 'idp.example|ü:{1}' });
    const record = await store.get(id);
    assert.deepEqual(record?.metadata, metadata);
    assert.deepEqual(record.permissions, []);
    assert.equal(record.name, 'naïve 😀');
    assert.equal(record.userId, 'idp.example|ü:{1}');
  });

  tell('an id is given once, to whomever', async ({ store, open }) => {
    const { id } = await open();
    assert.deepEqual(await store.create(draft({ id, userId: 'eve' })), { outcome: 'exists', what: 'id' });
    assert.equal((await store.get(id))?.userId, 'ada');
  });

  tell('ids that cannot be ids are refused', async ({ store }) => {
    for (const id of ['', 'A', 'a_b', '../x', 'a\u0000', 'x'.repeat(129), '-a', '*']) {
      await assert.rejects(store.create(draft({ id })), invalid, id);
      await assert.rejects(store.get(id), invalid, id);
    }
    await assert.rejects(store.create(draft({ userId: '\ud800' })), invalid);
    await assert.rejects(store.create(draft({ ttlSeconds: 0 })), invalid);
    await assert.rejects(store.create(draft({ parentId: '../x' })), invalid);
  });

  tell('an unknown session is missing, to every method', async ({ store }) => {
    assert.equal(await store.get('unknown'), undefined);
    assert.equal(await store.remains('unknown'), undefined);
    assert.deepEqual(await store.update('unknown', 1, {}), { outcome: 'missing' });
    assert.deepEqual(await store.admit({ id: 'unknown' }), { outcome: 'missing' });
    assert.equal(await store.end('unknown'), false);
    assert.equal(await store.usage('unknown'), undefined);
    assert.equal(await store.renew('unknown', 'lease', 1000), false);
    await store.release('unknown', 'lease');
  });

  tell('a change raises the version and nothing else', async ({ store, open }) => {
    const before = await open({ permissions: ['a', 'b'] });
    const updated = await store.update(before.id, 1, { permissions: ['a'], servers: ['notes'] });
    const after = { ...before, version: 2, permissions: ['a'], servers: ['notes'] };
    assert.deepEqual(updated, { outcome: 'updated', record: after });
    assert.deepEqual(await store.get(before.id), after);
  });

  tell('whose session it is cannot change, and a life gets no longer', async ({ store, open }) => {
    const { id, endsAt } = await open();
    const changes = [{ userId: 'eve' }, { ttlSeconds: 61 }, { endsAt: endsAt + 1 }, { version: 9 }] as SessionChange[];
    for (const change of changes) await assert.rejects(store.update(id, 1, change), invalid, JSON.stringify(change));
    assert.equal((await store.get(id))?.version, 1);
  });

  tell('an ended session is gone, and its remains say why', async ({ store, open }) => {
    const record = await open();
    assert.equal(await store.end(record.id, 'revoked'), true);
    assert.equal(await store.end(record.id), false);
    assert.equal(await store.get(record.id), undefined);
    const remains = await store.remains(record.id);
    assert.equal(remains?.reason, 'revoked');
    assert.deepEqual(remains.record.tokenDigests, ['d1']);
    assert.deepEqual(await store.admit({ id: record.id }), { outcome: 'ended', reason: 'revoked' });
  });

  tell('nothing written late revives an ended session', async ({ store, open, advance }) => {
    const { id } = await open();
    const admitted = await store.admit({ id, holdMs: 30_000 });
    assert.ok(admitted.outcome === 'admitted' && admitted.lease !== null);
    await store.end(id);
    const gone = { outcome: 'ended', reason: 'ended' };
    assert.deepEqual(await store.update(id, 1, { permissions: [] }), gone);
    assert.deepEqual(await store.state.set(id, 'k', 1), gone);
    assert.deepEqual(await store.marks.put(id, 'k'), gone);
    assert.equal(await store.renew(id, admitted.lease, 30_000), false);
    await store.release(id, admitted.lease, { bytes: 10 });
    assert.deepEqual(await store.create(draft({ id })), { outcome: 'exists', what: 'id' });
    advance(599_000);
    await store.sweep();
    assert.deepEqual(await store.create(draft({ id })), { outcome: 'exists', what: 'id' });
    assert.equal(await store.get(id), undefined);
    assert.deepEqual((await store.list()).sessions, []);
  });

  tell('an id that is given again brings nothing of the session that had it, swept or not', async (scene) => {
    const { store, open, advance } = scene;
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
      assert.deepEqual(await store.usage(id), { calls: 0, bytes: 0, underWay: 0 });
      assert.deepEqual((await store.list({ userId: 'ada' })).sessions, []);
      assert.deepEqual(await store.find('first'), []);
    }
  });
}
