import { createHash } from 'node:crypto';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { SearchedSession } from '../../../src/sessions/search/session-index.ts';
import { readAllDocuments } from '../../../src/stores/documents.ts';
import type { SessionStore } from '../../../src/stores/store.ts';
import { counts } from '../../proof.ts';
import { openAnotherIndex, openIndexInMemory } from './open-index.ts';

const hash = (text: string) => createHash('sha256').update(text).digest('hex');
const readTexts = async ({ documents }: SessionStore, userId = 'ada') =>
  (await readAllDocuments(documents, `sessions-${hash(userId).slice(0, 40)}`)).map(({ text }) => text);
const letters = (count: number) =>
  Array.from(
    { length: count },
    (_, index) => `${index.toString(26).replace(/\d/g, (digit) => 'qrstuvwxyz'[Number(digit)] as string)}word`,
  );

test('P13: whatever a session writes, its digest stays small', async () => {
  const { store, open, index, find } = openIndexInMemory();
  const permissions = Array.from({ length: 100 }, (_, n) => `p${n}:${'x'.repeat(120)}`);
  const task = '\u0001'.repeat(4096);
  const session = await open({ task, permissions, metadata: { words: letters(2000).join(' '), deep: [[[['oak']]]] } });
  const plain = await open({ task: 'Plain' });
  for (const { id, userId, createdAt } of [session, plain]) {
    const indexed = { id, userId, createdAt };
    index.noteMessage(indexed, `${letters(1000).join(' ')} ${'y '.repeat(5_000_000)}`);
    index.noteMessage(indexed, letters(4000).join('-'));
    index.noteMessage(indexed, `${'語'.repeat(3000)} ${'z'.repeat(1_000_000)} ${'𠮷'.repeat(1999)}`);
    for (let count = 0; count < 1000; count++) {
      index.noteTool(indexed, `${'\u0007'.repeat(300)}${count}`);
      index.noteTool(indexed, `tool${count}${'"'.repeat(300)}`);
      index.noteFile(indexed, `${'\u0007'.repeat(1000)}/${count}.ts`);
    }
  }
  await index.close();
  const texts = await readTexts(store);
  expect(texts).toHaveLength(2);
  for (const text of texts) {
    expect(Buffer.byteLength(text)).toBeLessThanOrEqual(49_152);
    const { tools, files, messages, metadata } = JSON.parse(text);
    expect(Math.max(...[...metadata, ...messages].map((word: string) => word.length))).toBeLessThanOrEqual(64);
    expect(tools.length).toBeLessThanOrEqual(200);
    // The newest files stay.
    expect(files.at(-1)).toMatch(/\/999\.ts$/);
    expect(messages.length).toBeLessThanOrEqual(1500);
    expect(metadata.length).toBeLessThanOrEqual(200);
  }
  expect((await find({ text: '999.ts' })).map(({ why }) => why.length <= 300)).toEqual([true, true]);
});

test('P13: names that are no Unicode, or mean something to JavaScript, are kept as what they are', async () => {
  const { store, open, index, find } = openIndexInMemory();
  const metadata = JSON.parse('{"__proto__":"marsh","constructor":{"toString":1}}');
  const session = await open({ task: 'Read \u202e the \u0000\u001b[2J'.replace('\u0000', ''), metadata });
  index.noteFile(session, '\ud800\u0000');
  index.noteFile(session, 'a\ud800\u0000b/\u202eevil.ts');
  index.noteTool(session, '__proto__');
  index.noteTool(session, 'constructor');
  index.noteMessage(session, '__proto__ constructor \udfff hasOwnProperty');
  await index.close();
  expect(JSON.parse((await readTexts(store))[0] as string)).toMatchObject({
    files: ['ab/\u202eevil.ts'],
    tools: ['__proto__', 'constructor'],
  });
  expect(await find({ text: '__proto__ marsh' })).toMatchObject([{ why: 'tools: __proto__; metadata; messages' }]);
  expect(await find({ text: 'evil' })).toMatchObject([{ why: 'files: ab/\\u202eevil.ts' }]);
  expect(await find({ text: '\u0000'.repeat(10_000_000) })).toEqual([]);
  expect(await find({ text: `${'toString '.repeat(1_000_000)} marsh` })).toMatchObject([{ why: 'metadata' }]);
});

test('P13: any texts come back from the store as they went', async () => {
  const unit = fc.oneof(
    fc.integer({ max: 0xffff, min: 0 }).map((code) => String.fromCharCode(code)),
    fc.constantFrom('\ud800', '\u0000', 'ab', 'Ab', '"', ' ', '語', '𠮷', '\u202e'),
  );
  const texts = fc.array(fc.string({ unit, maxLength: 40 }), { maxLength: 10 });
  await fc.assert(
    fc.asyncProperty(texts, texts, async (names, messages) => {
      const first = openIndexInMemory();
      const session = await first.open();
      for (const name of names) {
        first.index.noteTool(session, name);
        first.index.noteFile(session, name);
      }
      for (const text of messages) first.index.noteMessage(session, text);
      const question = [...names, ...messages].join(' ');
      const before = await first.find({ text: question });
      await first.index.close();
      expect(await openAnotherIndex(first).find({ text: question })).toEqual(before);
    }),
    { numRuns: counts(30, 1000) },
  );
});

test('P13: a session that is not visible changes neither the results nor their order', async () => {
  const texts = fc.array(fc.constantFrom('rose', 'oak', 'fern', 'moss', 'reed'), { minLength: 1, maxLength: 4 });
  const drafts = fc.array(fc.record({ task: texts, isHidden: fc.boolean(), isEnded: fc.boolean() }), { maxLength: 12 });
  await fc.assert(
    fc.asyncProperty(drafts, texts, async (sessions, question) => {
      const [all, visible] = [openIndexInMemory(), openIndexInMemory()];
      for (const [number, { task, isHidden }] of sessions.entries()) {
        for (const each of isHidden ? [all] : [all, visible]) {
          const changes = { id: `session-${number}`, task: task.join(' '), agentId: isHidden ? 'spy' : 'coder' };
          const session = await each.open(changes);
          each.index.noteMessage(session, task.join(' '));
        }
        for (const each of [all, visible]) each.advance(1000);
      }
      for (const { index, store } of [all, visible]) {
        await index.close();
        for (const [number, { isEnded }] of sessions.entries()) if (isEnded) await store.end(`session-${number}`);
      }
      const isVisible = ({ agentId }: SearchedSession) => agentId !== 'spy';
      const withoutTimes = (found: readonly object[]) => found.map((each) => ({ ...each, createdAt: 0, endedAt: 0 }));
      for (const text of [question.join(' '), '']) {
        const found = await all.find({ text, isVisible });
        expect(withoutTimes(found)).toEqual(withoutTimes(await visible.find({ text })));
        expect(found.filter(({ agentId }) => agentId === 'spy')).toEqual([]);
      }
    }),
    { numRuns: counts(30, 1000) },
  );
});

test('P13: no session of another user or workspace is asked about, whatever their names', async () => {
  const { open, find, index, store } = openIndexInMemory();
  const users = ['ada', 'ADA', 'ada/', '*', '', 'sessions-', hash('ada')].filter((user) => user !== '');
  for (const userId of users) {
    for (const workspaceId of ['garden', 'garden/', null]) await open({ userId, workspaceId, task: 'Same task' });
  }
  await index.close();
  for (const { id } of (await store.list({})).sessions.filter((_, at) => at % 2 === 0)) await store.end(id);
  for (const userId of users) {
    for (const workspaceId of ['garden', 'garden/', undefined]) {
      const asked: (string | null)[] = [];
      const isVisible = (each: SearchedSession) => asked.push(each.workspaceId) > 0;
      expect(await find({ userId, workspaceId, text: 'same', isVisible })).toHaveLength(1);
      expect(asked).toEqual([workspaceId ?? null]);
    }
  }
});

test('P13: another session that has the id of an earlier one gets nothing of it', async () => {
  const first = openIndexInMemory();
  const { store, advance, index } = first;
  const id = 'orchestrator-1';
  const earlier = await first.open({ id, task: 'Paint the fence', lifetimeSeconds: 60 });
  index.noteMessage(earlier, 'varnish');
  await index.close();
  advance(7_200_000);
  await store.sweep();
  const later = openAnotherIndex(first);
  await later.open({ id, userId: 'bob', task: 'Secret of Bob' });
  expect(await first.find({ text: 'fence' })).toMatchObject([{ id, state: 'ended', task: 'Paint the fence' }]);
  expect(await first.find({ text: 'secret bob' })).toEqual([]);
  await store.end(id);
  expect(await first.find({ text: 'fence' })).toMatchObject([{ id, state: 'ended', endedAt: null }]);
  advance(7_200_000);
  await store.sweep();
  const last = openAnotherIndex(first);
  await last.open({ id, task: 'Oil the gate' });
  expect(await last.find({ text: 'varnish' })).toEqual([]);
  // A note that comes late is about the earlier session.
  last.index.noteMessage(earlier, 'varnish');
  await last.index.close();
  expect(await last.find({ text: 'varnish fence' })).toEqual([]);
  expect((await readTexts(store)).map((text) => JSON.parse(text).task)).toEqual(['Oil the gate']);
  expect(await last.find({ text: 'gate' })).toMatchObject([{ id, state: 'live' }]);
});

test('P13: at most two searches run at once', async () => {
  const { open, find } = openIndexInMemory();
  await open();
  let asked = 0;
  const searches = Array.from({ length: 5 }, () => find({ isVisible: () => ++asked > 0 }));
  await searches[1];
  expect(asked).toBeLessThanOrEqual(4);
  expect((await Promise.all(searches)).flat()).toHaveLength(5);
});
