import assert from 'node:assert/strict';
import { watchStore } from './feed.ts';
import { callConcurrently, type DefineTest, expectOutcome, isInvalidRequest } from './harness.ts';

export function testDocuments(test: DefineTest): void {
  test('a document comes back as it was written, in its own collection', async ({ store: { documents } }) => {
    for (const text of ['', ' ', '{"a":1}', 'ü😀\n\t"\\', '7 8', '__proto__']) {
      const written = await expectOutcome(documents.put('things', 'k', text), 'written');
      assert.deepEqual(await documents.get('things', 'k'), { key: 'k', text, version: written.version });
    }
    assert.equal(await documents.get('things', 'other'), undefined);
    assert.equal(await documents.get('others', 'k'), undefined);
    assert.deepEqual(await documents.list('others'), { documents: [], next: null });
    await documents.put('others', 'k', 'theirs');
    assert.deepEqual(await documents.delete('others', 'k'), { outcome: 'deleted' });
    assert.equal((await documents.get('things', 'k'))?.text, '__proto__');
    await documents.put('things', '__proto__', 'odd');
    assert.equal((await documents.get('things', '__proto__'))?.text, 'odd');
  });

  test('a document is written and deleted only at the version expected', async ({ store: { documents } }) => {
    const { version } = await expectOutcome(documents.put('things', 'k', 'a', { expectedVersion: 0 }), 'written');
    assert.deepEqual(await documents.put('things', 'k', 'b', { expectedVersion: 0 }), { outcome: 'conflict', version });
    const second = await documents.put('things', 'k', 'b', { expectedVersion: version });
    assert.ok(second.outcome === 'written' && second.version > version);
    assert.equal((await documents.put('things', 'k', 'c', { expectedVersion: version })).outcome, 'conflict');
    assert.equal((await documents.delete('things', 'k', { expectedVersion: version })).outcome, 'conflict');
    assert.equal((await documents.get('things', 'k'))?.text, 'b');
    const none = { outcome: 'conflict', version: 0 };
    assert.deepEqual(await documents.put('things', 'none', 'x', { expectedVersion: 7 }), none);
    assert.deepEqual(await documents.delete('things', 'none', { expectedVersion: 7 }), none);
    assert.deepEqual(await documents.delete('things', 'k', { expectedVersion: second.version }), {
      outcome: 'deleted',
    });
    assert.deepEqual(await documents.delete('things', 'k'), { outcome: 'absent' });
  });

  test('a document deleted and written again has another version', async ({ store: { documents } }) => {
    const versions = new Set<number>();
    for (let round = 0; round < 3; round++) {
      const written = await expectOutcome(documents.put('things', 'k', 'same', { expectedVersion: 0 }), 'written');
      versions.add(written.version);
      await documents.delete('things', 'k');
    }
    assert.equal(versions.size, 3);
  });

  test('of many concurrent writes of a document at one version, one succeeds', async ({ store, another }) => {
    const other = another === undefined ? store : await another();
    const answers = await callConcurrently([store, other], (each, index) =>
      each.documents.put('things', 'k', String(index), { expectedVersion: 0 }),
    );
    assert.equal(answers.filter(({ outcome }) => outcome === 'written').length, 1);
    const winner = answers.findIndex(({ outcome }) => outcome === 'written');
    assert.equal((await other.documents.get('things', 'k'))?.text, String(winner));
  });

  test('the limits of documents hold, for one text and for a collection', async ({ store: { documents } }) => {
    const full = (limit: string) => ({ outcome: 'full', limit });
    assert.deepEqual(await documents.put('things', 'k', 'ü'.repeat(101)), full('textBytes'));
    assert.equal((await documents.put('things', 'k', 'ü'.repeat(100))).outcome, 'written');
    for (const key of ['a', 'b', 'c', 'd']) await documents.put('things', key, key);
    assert.deepEqual(await documents.put('things', 'e', 'e'), full('documents'));
    assert.equal((await documents.put('things', 'a', 'again')).outcome, 'written', 'it takes no further place');
    assert.equal((await documents.put('others', 'e', 'e')).outcome, 'written', 'each collection has its own');
    await documents.delete('things', 'b');
    assert.equal((await documents.put('things', 'e', 'e')).outcome, 'written', 'what was deleted makes room');
  });

  test('documents are listed in the order of their bytes, by prefix, in pages', async ({ store: { documents } }) => {
    // The last two are the other way round where characters are compared by their halves.
    const keys = ['a/1', 'a/2', 'b%', '\uffee', '😀'];
    for (const key of [...keys].reverse()) await documents.put('things', key, `text of ${key}`);
    const listed = async (options: object) => {
      const page = await documents.list('things', options);
      return [page.documents.map(({ key }) => key), page.next];
    };
    assert.deepEqual(await listed({}), [keys, null]);
    assert.deepEqual(await listed({ prefix: 'a/' }), [['a/1', 'a/2'], null]);
    assert.deepEqual(await listed({ prefix: 'a/', limit: 1 }), [['a/1'], 'a/1']);
    assert.deepEqual(await listed({ prefix: 'a/', limit: 1, after: 'a/1' }), [['a/2'], null]);
    assert.deepEqual(await listed({ prefix: 'b', after: 'a/1' }), [['b%'], null]);
    assert.deepEqual(await listed({ prefix: '%' }), [[], null]);
    assert.deepEqual(await listed({ limit: 2 }), [['a/1', 'a/2'], 'a/2']);
    assert.deepEqual(await listed({ limit: 2, after: 'b%' }), [['\uffee', '😀'], null]);
    const [first] = (await documents.list('things')).documents;
    assert.deepEqual(first, { ...(await documents.get('things', 'a/1')) });
  });

  test('a watcher hears of documents written and deleted, here and elsewhere', async ({ store, another }) => {
    const watcher = watchStore(another === undefined ? store : await another());
    await store.documents.put('things', 'a key: ü', 'x');
    await store.documents.put('things', 'a key: ü', 'y', { expectedVersion: 99 });
    await store.documents.delete('things', 'never there');
    await store.documents.delete('things', 'a key: ü');
    await store.documents.put('others', 'last', 'x');
    await watcher.waitFor(
      (change) => change.kind === 'document' && change.collection === 'others',
      'the last document',
    );
    const mine = { kind: 'document', collection: 'things', key: 'a key: ü' };
    assert.deepEqual(watcher.changes, [mine, mine, { kind: 'document', collection: 'others', key: 'last' }]);
  });

  test('documents stay when sessions end', async ({ store, open, advance }) => {
    const { id } = await open({ ttlSeconds: 1 });
    await store.documents.put('things', id, 'kept');
    await store.end(id);
    advance(100_000_000);
    await store.sweep();
    assert.equal((await store.documents.get('things', id))?.text, 'kept');
  });

  test('invalid documents are refused', async ({ store: { documents } }) => {
    for (const collection of ['', 'A', '1a', 'a b', 'a:b', 'x'.repeat(65)]) {
      await assert.rejects(documents.put(collection, 'k', 'x'), isInvalidRequest);
      await assert.rejects(documents.list(collection), isInvalidRequest);
    }
    for (const key of ['', 'x'.repeat(513), '\ud800', 'a\u0000b']) {
      await assert.rejects(documents.put('things', key, 'x'), isInvalidRequest);
      await assert.rejects(documents.get('things', key), isInvalidRequest);
    }
    for (const text of ['\ud800', 'a\u0000b', 1 as unknown as string]) {
      await assert.rejects(documents.put('things', 'k', text), isInvalidRequest);
    }
    await assert.rejects(documents.put('things', 'k', 'x', { expectedVersion: -1 }), isInvalidRequest);
    await assert.rejects(documents.list('things', { limit: 1001 }), isInvalidRequest);
  });
}
