import { expect, test } from 'vitest';
import { openMemoryStore } from '../../src/stores/memory/memory-store.ts';
import { createPageCursors } from '../../src/stores/page-cursors.ts';

const { documents } = openMemoryStore();
const bindings = ['list', 'tools/list', '*', 'a'];

test('a cursor opens for its bindings, also elsewhere on the same store, and shows nothing', async () => {
  const cursor = await createPageCursors(documents).seal('500 päth', bindings);
  expect(await createPageCursors(documents).open(cursor, bindings)).toBe('500 päth');
  expect(Buffer.from(cursor, 'base64url').toString('latin1')).not.toContain('500');
  expect(cursor).not.toBe(await createPageCursors(documents).seal('500 päth', bindings));
});

test('no changed, shortened or foreign cursor opens', async () => {
  const cursors = createPageCursors(documents);
  const cursor = await cursors.seal('500', bindings);
  const swap = (text: string, at: number, by: string) => `${text.slice(0, at)}${by}${text.slice(at + 1)}`;
  const changed = [...cursor].map((each, at) => swap(cursor, at, each === 'A' ? 'B' : 'A'));
  const cut = [...cursor].map((_, at) => cursor.slice(0, at));
  for (const forged of [...changed, ...cut, `${cursor}=`, `${cursor}\n`, swap(cursor, 3, '+'), 'NTAw']) {
    expect(await cursors.open(forged, bindings), forged).toBeUndefined();
  }
  for (const other of [['list', 'tools/list', '*', 'b'], ['list', 'prompts/list', '*', 'a'], bindings.slice(0, 3)]) {
    expect(await cursors.open(cursor, other)).toBeUndefined();
  }
  const foreign = await createPageCursors(openMemoryStore().documents).seal('500', bindings);
  expect(await cursors.open(foreign, bindings)).toBeUndefined();
});

test('a cursor expires after an hour', async () => {
  let now = Date.now();
  const cursors = createPageCursors(documents, () => now);
  const cursor = await cursors.seal('500', bindings);
  now += 60 * 60_000;
  expect(await cursors.open(cursor, bindings)).toBe('500');
  now += 1;
  expect(await cursors.open(cursor, bindings)).toBeUndefined();
});
