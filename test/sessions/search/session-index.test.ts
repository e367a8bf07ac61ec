import { createHash } from 'node:crypto';
import { expect, onTestFinished, test, vi } from 'vitest';
import {
  createSessionIndex,
  type IndexedSession,
  type SearchedSession,
} from '../../../src/sessions/search/session-index.ts';
import { readAllDocuments } from '../../../src/stores/documents.ts';
import type { SessionStore } from '../../../src/stores/store.ts';
import { unavailableError } from '../../../src/stores/store-lifecycle.ts';
import { openAnotherIndex, openIndexInMemory } from './open-index.ts';

const hash = (text: string) => createHash('sha256').update(text).digest('hex');
const collectionOf = (userId: string) => `sessions-${hash(userId).slice(0, 40)}`;
const readDigests = async (store: SessionStore, userId = 'ada') =>
  (await readAllDocuments(store.documents, collectionOf(userId))).map(({ text }) => JSON.parse(text));
const dayMs = 86_400_000;

test('P13: a session is found by every kind of text, and shows no notes and no messages', async () => {
  const { index, open, find } = openIndexInMemory();
  const { id, ...session } = await open({
    name: 'grow-tomatoes',
    task: 'Split the parser.',
    metadata: { jira: 'ROSE-42' },
  });
  index.noteTool({ id, ...session }, 'notes__write');
  index.noteFile({ id, ...session }, 'src/greenhouse.ts');
  index.noteMessage({ id, ...session }, 'Please water the cactus.');
  const reasons = async (text: string) => (await find({ text })).map(({ why }) => why);
  for (const state of ['unwritten', 'written']) {
    expect(await reasons('tomato growing'), state).toEqual(['name: tomatoes grow']);
    expect(await reasons('parsers')).toEqual(['task: parser']);
    expect(await reasons('write a note')).toEqual(['tools: notes__write']);
    expect(await reasons('greenhouse.ts')).toEqual(['files: src/greenhouse.ts']);
    expect(await reasons('rose')).toEqual(['metadata']);
    expect(await reasons('cactuses or cactus')).toEqual(['messages']);
    expect(await reasons('jira parser cactus')).toEqual(['task: parser; metadata; messages']);
    expect(await reasons('submarine')).toEqual([]);
    expect(await reasons('?!')).toEqual([]);
    await index.close();
  }
});

test('P13: a live session is found as the store has it, even without a note', async () => {
  const { store, open, find, index } = openIndexInMemory();
  const { id, createdAt } = await open({ name: 'old-oak', trustLevel: 'direct' });
  await index.close();
  await store.update(id, 1, { trustLevel: 'sandboxed', metadata: { tree: 'birch' } });
  const found = { id, name: 'old-oak', task: null, agentId: 'coder', createdAt, endedAt: null, state: 'live' };
  expect(await find({ text: 'birch' })).toEqual([{ ...found, trustLevel: 'sandboxed', why: 'metadata' }]);
  await store.documents.delete(collectionOf('ada'), `${hash('garden').slice(0, 16)}/${id}`);
  expect(await find({ text: 'oak' })).toEqual([{ ...found, trustLevel: 'sandboxed', why: 'name: oak' }]);
});

test('P13: an ended session has the first end and its reason, whoever noted it', async () => {
  const first = openIndexInMemory();
  const session = await first.open({ task: 'Prune roses' });
  const second = openAnotherIndex(first);
  await first.index.close();
  await first.store.end(session.id, 'revoked');
  second.index.ended(session, 'revoked');
  const endedAt = first.now();
  expect(await second.find({ text: 'roses' })).toMatchObject([{ state: 'revoked', endedAt }]);
  await second.index.close();
  first.advance(5000);
  const third = openAnotherIndex(first);
  third.index.ended(session, 'expired');
  await third.index.close();
  expect(await third.find({ text: 'roses' })).toMatchObject([{ id: session.id, state: 'revoked', endedAt }]);
});

test('P13: the store is asked for an end that nobody noted; when it has forgotten, the session is just ended', async () => {
  const { open, find, advance, index, store, now } = openIndexInMemory();
  const expired = await open({ task: 'Rake leaves', ttlSeconds: 60 });
  const ended = await open({ task: 'Rake more leaves' });
  await index.close();
  await store.end(ended.id, 'evicted');
  const lastUse = now();
  advance(1_800_000);
  const states = async () =>
    (await find({ text: 'leaves' })).map(({ id, state, endedAt }) => [id, state, endedAt]).sort();
  expect(await states()).toEqual(
    [
      [expired.id, 'expired', lastUse + 60_000],
      [ended.id, 'evicted', lastUse],
    ].sort(),
  );
  expect(await find({ text: 'leaves', since: lastUse + 61_000 })).toMatchObject([{ id: ended.id }]);
  advance(2 * dayMs);
  await store.sweep();
  expect(await states()).toEqual(
    [
      [expired.id, 'ended', null],
      [ended.id, 'ended', null],
    ].sort(),
  );
});

test('P13: time and life limit the results; without words the newest come first', async () => {
  const { open, find, findIds, advance, index, store } = openIndexInMemory();
  const ids: string[] = [];
  const starts: number[] = [];
  for (let count = 0; count < 5; count++) {
    const session = await open();
    ids.push(session.id);
    starts.push(session.createdAt);
    advance(1000);
    if (count > 2) continue;
    await store.end(session.id);
    index.ended(session, 'ended');
  }
  await index.close();
  const [a, b, c, d, e] = ids as [string, string, string, string, string];
  expect(await findIds()).toEqual([e, d, c, b, a]);
  expect(await findIds({ text: ' \n', limit: 2 })).toEqual([e, d]);
  expect(await findIds({ ended: true })).toEqual([c, b, a]);
  expect(await findIds({ ended: false })).toEqual([e, d]);
  expect(await findIds({ until: starts[2] })).toEqual([c, b, a]);
  // The second ends in the millisecond in which the third is opened.
  expect(await findIds({ since: starts[2], until: starts[2] })).toEqual([c, b]);
  expect(await findIds({ since: (starts[1] as number) + 1500, until: starts[3] })).toEqual([d, c]);
  expect(await find({ limit: 1_000_000 })).toHaveLength(5);
});

test('P13: two processes write one digest together', async () => {
  const first = openIndexInMemory();
  const second = openAnotherIndex(first);
  const session = await first.open({ task: 'Dig a pond' });
  first.index.noteTool(session, 'shovel__dig');
  second.index.noteTool(session, 'bucket__carry');
  first.index.noteFile(session, 'pond.md');
  second.index.noteFile(session, 'fish.md');
  second.index.noteMessage(session, 'frogs everywhere');
  await Promise.all([first.index.close(), second.index.close()]);
  const [digest] = await readDigests(first.store);
  expect([...digest.tools].sort()).toEqual(['bucket__carry', 'shovel__dig']);
  expect([...digest.files].sort()).toEqual(['fish.md', 'pond.md']);
  const third = openAnotherIndex(first);
  expect(await third.find({ text: 'carry fish frogs shovel' })).toMatchObject([
    { why: 'files: fish.md; tools: shovel__dig, bucket__carry; messages' },
  ]);
});

test('P13: what is known already is not written again', async () => {
  const { open, index, store, ...rest } = openIndexInMemory();
  const session = await open();
  index.noteTool(session, 'shovel__dig');
  index.noteMessage(session, 'frogs');
  await index.close();
  const [before] = await readAllDocuments(store.documents, collectionOf('ada'));
  const again = openAnotherIndex({ open, index, store, ...rest });
  again.index.opened(session);
  again.index.noteTool(session, 'shovel__dig');
  again.index.noteMessage(session, 'Frogs! frogs.');
  await again.index.close();
  expect(await readAllDocuments(store.documents, collectionOf('ada'))).toEqual([before]);
});

test('P13: a child is in the tree of its root, whoever of them was indexed', async () => {
  const { store, open, find, index } = openIndexInMemory();
  const top = await open();
  const child = await open({ parentId: top.id });
  const roots = async () => {
    const seen = new Map<string, string>();
    await find({ isVisible: ({ id, rootId }: SearchedSession) => seen.set(id, rootId) !== undefined });
    return Object.fromEntries(seen);
  };
  const live = { [top.id]: top.id, [child.id]: top.id };
  expect(await roots()).toEqual(live);
  await index.close();
  await store.end(top.id);
  await store.end(child.id);
  expect(await roots()).toEqual(live);
});

test('P13: notes are written half a second later; an unavailable store stops nobody and gets them later', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  onTestFinished(() => void vi.useRealTimers());
  const base = openIndexInMemory();
  let isAway = true;
  const { documents } = base.store;
  const store: SessionStore = {
    ...base.store,
    documents: {
      ...documents,
      async get(...where) {
        if (isAway) throw unavailableError('The store is away.');
        return documents.get(...where);
      },
    },
  };
  const index = createSessionIndex({ store });
  const sessions = [await base.open(), await base.open()];
  for (const session of sessions) index.noteTool(session, 'shovel__dig');
  const readTools = async () => (await readDigests(base.store)).map(({ tools }) => tools);
  await vi.advanceTimersByTimeAsync(1000);
  expect(await readTools()).toEqual([]);
  isAway = false;
  index.noteTool(sessions[0] as IndexedSession, 'bucket__carry');
  await vi.advanceTimersByTimeAsync(5000);
  const written = [['shovel__dig', 'bucket__carry'], ['shovel__dig']];
  await expect.poll(async () => (await readTools()).sort((a, b) => b.length - a.length)).toEqual(written);
});

test('P13: a forgotten user leaves nothing, and an end that comes late brings nothing back', async () => {
  const { store, open, index, ...rest } = openIndexInMemory();
  const [session, pending] = [await open({ task: 'Bury bulbs' }), await open({ userId: 'bob' })];
  const another = openAnotherIndex({ store, open, index, ...rest });
  another.index.noteTool(session, 'shovel__dig');
  await another.index.close();
  expect(await readDigests(store)).toHaveLength(1);
  await index.forgetUser('ada');
  await store.end(session.id);
  index.ended(session, 'revoked');
  await index.close();
  expect(await readDigests(store)).toEqual([]);
  expect(await rest.findIds()).toEqual([]);
  expect(await rest.findIds({ userId: 'bob' })).toEqual([pending.id]);
});
