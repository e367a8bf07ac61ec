import assert from 'node:assert/strict';
import type { JsonValue } from '../../../stores/record.ts';
import { watchStore } from './feed.ts';
import { callConcurrently, type DefineTest, expectOutcome, isInvalidRequest, openPair } from './harness.ts';

export function testState(test: DefineTest): void {
  testEntries(test, 'state');
}

export function testResults(test: DefineTest): void {
  testEntries(test, 'results');

  test('results and state are two things, and a watcher hears of results', async (storeTest) => {
    const [store, other] = await openPair(storeTest);
    const { id } = await storeTest.open();
    const watchers = [watchStore(store), watchStore(other)];
    await store.state.set(id, 'k', 'state');
    await store.results.set(id, 'k', 'result');
    assert.equal((await other.state.get(id, 'k'))?.value, 'state');
    assert.equal((await other.results.get(id, 'k'))?.value, 'result');
    for (const watcher of watchers) {
      await watcher.waitFor((change) => change.kind === 'result' && change.id === id, 'the result');
      assert.equal(watcher.changes.filter(({ kind }) => kind === 'result').length, 1);
    }
    await store.results.delete(id, 'k');
    assert.equal((await other.state.get(id, 'k'))?.value, 'state');
  });
}

function testEntries(test: DefineTest, part: 'state' | 'results'): void {
  test('values are read back as they were written', async ({ store, open }) => {
    const { id } = await open();
    const values: JsonValue[] = [null, false, 0, '', [], {}, [{}], { a: [1, { b: null }] }, 'ü😀\n\u0000', 1e300];
    for (const value of values) {
      const written = await expectOutcome(store[part].set(id, 'k', value), 'written');
      const entry = await store[part].get(id, 'k');
      assert.deepEqual(entry?.value, value);
      assert.equal(entry.version, written.version);
    }
    assert.equal(await store[part].get(id, 'other'), undefined);
    const odd = JSON.parse('{"__proto__":{"polluted":1}}') as JsonValue;
    await store[part].set(id, '__proto__', odd);
    assert.equal(JSON.stringify((await store[part].get(id, '__proto__'))?.value), '{"__proto__":{"polluted":1}}');
  });

  test('a write with an expected version happens only at that version', async ({ store, open }) => {
    const { id } = await open();
    const { version } = await expectOutcome(store[part].set(id, 'k', 'a', { expectedVersion: 0 }), 'written');
    assert.deepEqual(await store[part].set(id, 'k', 'b', { expectedVersion: 0 }), { outcome: 'conflict', version });
    const second = await store[part].set(id, 'k', 'b', { expectedVersion: version });
    assert.ok(second.outcome === 'written' && second.version > version);
    assert.equal((await store[part].set(id, 'k', 'c', { expectedVersion: version })).outcome, 'conflict');
    assert.equal((await store[part].delete(id, 'k', { expectedVersion: version })).outcome, 'conflict');
    assert.equal((await store[part].get(id, 'k'))?.value, 'b');
    assert.deepEqual(await store[part].set(id, 'none', 1, { expectedVersion: 7 }), { outcome: 'conflict', version: 0 });
    assert.deepEqual(await store[part].delete(id, 'k', { expectedVersion: second.version }), { outcome: 'deleted' });
    assert.deepEqual(await store[part].delete(id, 'k'), { outcome: 'absent' });
  });

  test('an entry deleted and written again has another version', async ({ store, open }) => {
    const { id } = await open();
    const first = await store[part].set(id, 'k', 1);
    await store[part].delete(id, 'k');
    const second = await store[part].set(id, 'k', 1);
    assert.ok(first.outcome === 'written' && second.outcome === 'written' && second.version > first.version);
  });

  test('of many concurrent writes at one version, one succeeds', async ({ store, open, another }) => {
    const other = another === undefined ? store : await another();
    const { id } = await open();
    const answers = await callConcurrently([store, other], (each, index) =>
      each[part].set(id, 'k', index, { expectedVersion: 0 }),
    );
    assert.equal(answers.filter(({ outcome }) => outcome === 'written').length, 1);
    const winner = answers.findIndex(({ outcome }) => outcome === 'written');
    assert.equal((await store[part].get(id, 'k'))?.value, winner);
  });

  test('an entry with a ttl expires on time and frees its space', async ({ store, open, advance }) => {
    const { id, createdAt } = await open();
    await store[part].set(id, 'short', 1, { ttlMs: 1000 });
    await store[part].set(id, 'renewed', 1, { ttlMs: 1000 });
    await store[part].set(id, 'kept', 1);
    assert.equal((await store[part].get(id, 'short'))?.expiresAt, createdAt + 1000);
    assert.equal((await store[part].get(id, 'kept'))?.expiresAt, null);
    advance(999);
    await store[part].set(id, 'renewed', 2);
    assert.ok(await store[part].get(id, 'short'));
    advance(1);
    assert.equal(await store[part].get(id, 'short'), undefined);
    assert.equal((await store[part].get(id, 'renewed'))?.value, 2);
    assert.deepEqual(
      (await store[part].list(id)).keys.map(({ key }) => key),
      ['kept', 'renewed'],
    );
    assert.deepEqual(await store[part].delete(id, 'short'), { outcome: 'absent' });
    assert.equal((await store[part].set(id, 'short', 2, { expectedVersion: 0 })).outcome, 'written');
  });

  test('the limits hold, for one value, for keys, and for the total', async ({ store, open, advance }) => {
    const { id } = await open();
    const full = (limit: string) => ({ outcome: 'full', limit });
    assert.deepEqual(await store[part].set(id, 'k', 'x'.repeat(199)), full('valueBytes'));
    assert.deepEqual(await store[part].set(id, 'k', 'ü'.repeat(100)), full('valueBytes'), 'bytes, not characters');
    for (const key of ['a', 'b']) assert.equal((await store[part].set(id, key, 'x'.repeat(198))).outcome, 'written');
    assert.deepEqual(await store[part].set(id, 'c', 'x'.repeat(97)), full('totalBytes'));
    assert.equal((await store[part].set(id, 'c', 'x'.repeat(95), { ttlMs: 1000 })).outcome, 'written');
    assert.deepEqual(await store[part].set(id, 'd', 1), full('totalBytes'));
    assert.equal((await store[part].set(id, 'a', 'x')).outcome, 'written', 'what it replaces makes room');
    for (const key of ['d', 'e']) assert.equal((await store[part].set(id, key, 1)).outcome, 'written');
    assert.deepEqual(await store[part].set(id, 'f', 1), full('keys'));
    advance(1000);
    assert.equal((await store[part].set(id, 'f', 1)).outcome, 'written', 'what has run out makes room');
    await store[part].delete(id, 'b');
    assert.equal((await store[part].set(id, 'g', 'x'.repeat(198))).outcome, 'written', 'so does what was deleted');
  });

  test('keys are listed in order, by prefix, in pages, without values', async ({ store, open }) => {
    const { id } = await open();
    for (const key of ['b%', 'a_2', 'ab', 'a_1', 'ü']) await store[part].set(id, key, key);
    const keys = async (options: object) => {
      const page = await store[part].list(id, options);
      return [page.keys.map(({ key }) => key), page.next];
    };
    assert.deepEqual(await keys({}), [['a_1', 'a_2', 'ab', 'b%', 'ü'], null]);
    assert.deepEqual(await keys({ prefix: 'a_' }), [['a_1', 'a_2'], null]);
    assert.deepEqual(await keys({ prefix: '%' }), [[], null]);
    assert.deepEqual(await keys({ limit: 2 }), [['a_1', 'a_2'], 'a_2']);
    assert.deepEqual(await keys({ limit: 2, after: 'b%' }), [['ü'], null]);
    const [first] = (await store[part].list(id)).keys;
    assert.deepEqual(Object.keys(first ?? {}).sort(), ['bytes', 'expiresAt', 'key', 'version']);
    assert.equal(first?.bytes, 8);
  });

  test('state is gone with its session, ended or expired', async ({ store, open, advance }) => {
    const [ended, expired] = [await open(), await open({ ttlSeconds: 1 })];
    for (const { id } of [ended, expired]) await store[part].set(id, 'k', 1);
    await store.end(ended.id);
    advance(1000);
    for (const [{ id }, outcome] of [
      [ended, 'ended'],
      [expired, 'expired'],
    ] as const) {
      assert.equal(await store[part].get(id, 'k'), undefined);
      assert.deepEqual(await store[part].list(id), { keys: [], next: null });
      assert.equal((await store[part].set(id, 'k', 1)).outcome, outcome);
      assert.equal((await store[part].delete(id, 'k')).outcome, outcome);
    }
    assert.equal((await store[part].set('unknown', 'k', 1)).outcome, 'missing');
  });

  test('invalid keys and values are refused', async ({ store, open }) => {
    const { id } = await open();
    for (const key of ['', 'x'.repeat(257), '\ud800', 'a\u0000b']) {
      await assert.rejects(store[part].set(id, key, 1), isInvalidRequest);
    }
    await assert.rejects(store[part].set(id, 'k', undefined as unknown as JsonValue), isInvalidRequest);
    await assert.rejects(store[part].set(id, 'k', 1, { ttlMs: 0 }), isInvalidRequest);
    await assert.rejects(store[part].set(id, 'k', 1, { expectedVersion: -1 }), isInvalidRequest);
  });
}

export function testMarks(test: DefineTest): void {
  test('a mark is put once', async ({ store, open, another }) => {
    const other = another === undefined ? store : await another();
    const { id } = await open();
    const answers = await callConcurrently([store, other], (each, index) =>
      each.marks.put(id, 'delivered', String(index)),
    );
    assert.equal(answers.filter(({ outcome }) => outcome === 'put').length, 1);
    const value = String(answers.findIndex(({ outcome }) => outcome === 'put'));
    assert.equal(await other.marks.get(id, 'delivered'), value);
    assert.deepEqual(await store.marks.put(id, 'delivered', 'x'), { outcome: 'present', value });
  });

  test('a mark that was deleted can be put again', async ({ store, open }) => {
    const { id } = await open();
    assert.equal(await store.marks.get(id, 'm'), undefined);
    assert.equal(await store.marks.delete(id, 'm'), false);
    assert.deepEqual(await store.marks.put(id, 'm'), { outcome: 'put' });
    assert.equal(await store.marks.get(id, 'm'), '');
    assert.equal(await store.marks.delete(id, 'm'), true);
    assert.deepEqual(await store.marks.put(id, 'm', 'ü😀'), { outcome: 'put' });
    assert.equal(await store.marks.get(id, 'm'), 'ü😀');
  });

  test('marks are gone with their session', async ({ store, open, advance }) => {
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
    await documents.put('things', 'empty', '');
    assert.deepEqual(await documents.delete('things', 'empty'), { outcome: 'deleted' });
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
    assert.deepEqual(
      await documents.put('few', 'a', 'a', { maxDocuments: 1 }).then(({ outcome }) => outcome),
      'written',
    );
    assert.deepEqual(await documents.put('few', 'b', 'b', { maxDocuments: 1 }), full('documents'));
    assert.equal((await documents.put('few', 'a', 'again', { maxDocuments: 1 })).outcome, 'written');
    const most = { maxBytes: 10 };
    assert.equal((await documents.put('small', 'a', 'ü'.repeat(3), most)).outcome, 'written');
    assert.deepEqual(await documents.put('small', 'b', 'xxxxx', most), full('totalBytes'), 'bytes, not characters');
    assert.equal((await documents.put('small', 'b', 'xxxx', most)).outcome, 'written');
    assert.equal((await documents.put('small', 'a', 'yyyyyy', most)).outcome, 'written', 'what it replaces makes room');
    await documents.delete('small', 'b');
    assert.equal((await documents.put('small', 'c', 'zzzz', most)).outcome, 'written', 'so does what was deleted');
    assert.deepEqual(await documents.put('small', 'c', 'zzzzz', most), full('totalBytes'));
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
