import assert from 'node:assert/strict';
import { isAmbitError } from '../../../errors.ts';
import type { SessionFilter, SessionStore } from '../../../stores/store.ts';
import type { Tell } from './harness.ts';

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

export function listing(tell: Tell): void {
  tell('pages together hold each session once, the oldest first', async ({ store, open, advance }) => {
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

  tell('what ends or begins between two pages disturbs no other', async ({ store, open, advance }) => {
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

  tell('a page nobody was given is refused', async ({ store }) => {
    const invalid = (error: unknown) => isAmbitError(error) && error.code === 'REQUEST_INVALID';
    for (const after of ['', 'x', '1', "1.a' OR 1=1", '1.*']) {
      await assert.rejects(store.list({}, { after }), invalid, after);
    }
    for (const limit of [0, 1001, 1.5, Number.NaN]) await assert.rejects(store.list({}, { limit }), invalid);
  });

  tell('found by id, else by name, else by the beginning of the id', async ({ store, open }) => {
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

  tell('a name several users have is ambiguous without the user', async ({ store, open }) => {
    const ada = await open({ name: 'main', userId: 'ada' });
    const eve = await open({ name: 'main', userId: 'eve' });
    assert.equal((await store.find('main')).length, 2);
    assert.deepEqual(await store.find('main', { userId: 'ada' }), [ada]);
    await store.end(ada.id);
    assert.deepEqual(await store.find('main'), [eve]);
  });
}
