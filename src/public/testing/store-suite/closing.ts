import assert from 'node:assert/strict';
import { isAmbitError } from '../../../errors.ts';
import { createNewSession, type DefineTest } from './harness.ts';

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
