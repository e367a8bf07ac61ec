import assert from 'node:assert/strict';
import type { Tell } from './harness.ts';

export function expiry(tell: Tell): void {
  tell('a session lives to the last millisecond of its ttl, and not one longer', async ({ store, open, advance }) => {
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

  tell('use keeps it alive, reading does not', async ({ store, open, advance }) => {
    const { id, createdAt } = await open({ ttlSeconds: 60 });
    advance(59_999);
    const used = await store.admit({ id, calls: 0 });
    assert.ok(used.outcome === 'admitted');
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

  tell('no use keeps it beyond its lifetime', async ({ store, open, advance }) => {
    const { id, endsAt } = await open({ ttlSeconds: 60, lifetimeSeconds: 100 });
    advance(50_000);
    const used = await store.admit({ id, holdMs: 300_000 });
    assert.ok(used.outcome === 'admitted');
    assert.equal(used.expiresAt, endsAt);
    advance(49_999);
    assert.ok(await store.get(id));
    advance(1);
    assert.deepEqual(await store.admit({ id }), { outcome: 'expired' });
  });

  tell('a call under way keeps it from running out, until its place runs out', async ({ store, open, advance }) => {
    const { id } = await open({ ttlSeconds: 1 });
    const used = await store.admit({ id, holdMs: 30_000 });
    assert.ok(used.outcome === 'admitted' && used.lease !== null);
    advance(29_999);
    assert.equal(await store.renew(id, used.lease, 30_000), true);
    advance(29_999);
    assert.ok(await store.get(id));
    await store.release(id, used.lease);
    advance(999);
    assert.ok(await store.get(id));
    advance(1);
    assert.deepEqual(await store.admit({ id }), { outcome: 'expired' });

    const crashed = await open({ ttlSeconds: 1 });
    await store.admit({ id: crashed.id, holdMs: 30_000 });
    advance(30_000);
    assert.deepEqual(await store.admit({ id: crashed.id }), { outcome: 'expired' });
  });

  tell('a shorter ttl counts from the last use, an earlier end at once', async ({ store, open, advance }) => {
    const { id } = await open({ ttlSeconds: 60 });
    advance(10_000);
    await store.update(id, 1, { ttlSeconds: 5 });
    assert.deepEqual(await store.admit({ id }), { outcome: 'expired' });
    const second = await open();
    await store.update(second.id, 1, { endsAt: 0 });
    assert.deepEqual(await store.admit({ id: second.id }), { outcome: 'expired' });
    assert.equal((await store.remains(second.id))?.reason, 'expired');
  });

  tell('sweeping buries what has expired, once, and changes no answer', async ({ store, open, advance }) => {
    const { id } = await open({ ttlSeconds: 1 });
    const kept = await open({ ttlSeconds: 60 });
    advance(1000);
    assert.equal(await store.sweep(), 1);
    assert.equal(await store.sweep(), 0);
    assert.deepEqual(await store.admit({ id }), { outcome: 'expired' });
    assert.equal((await store.remains(id))?.reason, 'expired');
    assert.ok(await store.get(kept.id));
  });

  tell('a place that has run out keeps nothing alive, swept or not', async ({ store, open, advance }) => {
    for (const sweep of [async () => 0, store.sweep]) {
      const { id, createdAt } = await open({ ttlSeconds: 20 });
      const other = await open({ ttlSeconds: 20 });
      await store.admit({ id, holdMs: 4000 });
      const held = await store.admit({ id: other.id, holdMs: 8000 });
      assert.ok(held.outcome === 'admitted' && held.lease !== null);
      advance(4000);
      await sweep();
      const shorter = await store.update(id, 1, { ttlSeconds: 1 });
      assert.ok(shorter.outcome === 'updated');
      assert.equal(shorter.record.expiresAt, createdAt + 1000);
      assert.deepEqual(await store.admit({ id }), { outcome: 'expired' });
      const underWay = await store.update(other.id, 1, { ttlSeconds: 1 });
      assert.ok(underWay.outcome === 'updated');
      assert.equal(underWay.record.expiresAt, other.createdAt + 8000, 'one that has not still does');
    }
  });

  tell('remains are the record as it last was, swept or not', async ({ store, open, advance }) => {
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

  tell('sweeping finds what was used again, when its time has come', async ({ store, open, advance }) => {
    const { id } = await open({ ttlSeconds: 10 });
    advance(9000);
    await store.admit({ id });
    advance(2000);
    assert.equal(await store.sweep(), 0);
    advance(8000);
    assert.equal(await store.sweep(), 1);
  });

  tell('sweeping finds what gave its place back before the time was up', async ({ store, open, advance }) => {
    const { id } = await open({ ttlSeconds: 1 });
    const used = await store.admit({ id, holdMs: 60_000 });
    assert.ok(used.outcome === 'admitted' && used.lease !== null);
    advance(2000);
    assert.equal(await store.sweep(), 0);
    await store.release(id, used.lease);
    advance(1000);
    assert.equal(await store.sweep(), 1);
  });

  tell('remains stay until an hour after the end there would have been', async ({ store, open, advance }) => {
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
