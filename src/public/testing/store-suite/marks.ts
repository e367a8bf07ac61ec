import assert from 'node:assert/strict';
import type { Tell } from './harness.ts';

export function marks(tell: Tell): void {
  tell('a mark is put once', async ({ store, open, another }) => {
    const other = another === undefined ? store : await another();
    const { id } = await open();
    const answers = await Promise.all(
      Array.from({ length: 20 }, (_, index) => (index % 2 ? store : other).marks.put(id, 'delivered', String(index))),
    );
    assert.equal(answers.filter(({ outcome }) => outcome === 'put').length, 1);
    const value = String(answers.findIndex(({ outcome }) => outcome === 'put'));
    assert.equal(await other.marks.get(id, 'delivered'), value);
    assert.deepEqual(await store.marks.put(id, 'delivered', 'x'), { outcome: 'present', value });
  });

  tell('a mark that was taken away can be put again', async ({ store, open }) => {
    const { id } = await open();
    assert.equal(await store.marks.get(id, 'm'), undefined);
    assert.equal(await store.marks.delete(id, 'm'), false);
    assert.deepEqual(await store.marks.put(id, 'm'), { outcome: 'put' });
    assert.equal(await store.marks.get(id, 'm'), '');
    assert.equal(await store.marks.delete(id, 'm'), true);
    assert.deepEqual(await store.marks.put(id, 'm', 'ü😀'), { outcome: 'put' });
    assert.equal(await store.marks.get(id, 'm'), 'ü😀');
  });

  tell('marks are gone with their session', async ({ store, open, advance }) => {
    const [ended, expired] = [await open(), await open({ ttlSeconds: 1 })];
    for (const { id } of [ended, expired]) await store.marks.put(id, 'm');
    await store.end(ended.id);
    advance(1000);
    for (const { id } of [ended, expired]) {
      assert.equal(await store.marks.get(id, 'm'), undefined);
      assert.equal(await store.marks.delete(id, 'm'), false);
    }
    assert.deepEqual(await store.marks.put(expired.id, 'm'), { outcome: 'expired' });
  });
}
