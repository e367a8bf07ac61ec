import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, test, vi } from 'vitest';
import { isAmbitError } from '../../src/errors.ts';
import { draft } from '../../src/public/testing/store-suite/harness.ts';
import { openMemoryStore } from '../../src/stores/memory/memory-store.ts';
import { openSqliteStore } from '../../src/stores/sqlite/sqlite-store.ts';
import type { SessionStore } from '../../src/stores/store.ts';
import { createWrittenSoFar, type WriteQuota } from '../../src/workspaces/write-quota.ts';

const limits = { sessionBytes: 100, sessionEntries: 3 };

function countingIn(store: SessionStore): WriteQuota {
  return createWrittenSoFar({
    documents: store.documents,
    isGone: async (id) => (await store.get(id)) === undefined,
  });
}

async function codeOf(work: Promise<unknown>): Promise<string | undefined> {
  return work.then(
    () => undefined,
    (error: unknown) => (isAmbitError(error) ? error.code : String(error)),
  );
}

test('a session writes as many bytes as it may, and no more, whoever it asks', async () => {
  const store = openMemoryStore();
  const one = countingIn(store);
  (await one.reserve('s-1', 60, limits)).commit(1);
  expect(await codeOf(one.reserve('s-1', 41, limits))).toBe('WORKSPACE_FULL');
  expect(await codeOf(one.reserve('s-1', 40, limits))).toBeUndefined();
  expect(await codeOf(one.reserve('s-2', 100, limits))).toBeUndefined();
  await one.close();

  const other = countingIn(store);
  expect(await codeOf(other.reserve('s-1', 41, limits))).toBe('WORKSPACE_FULL');
  expect(await codeOf(other.reserve('s-1', 40, limits))).toBeUndefined();
  await other.close();
  await store.close();
});

test('it makes as many files and folders as it may', async () => {
  const store = openMemoryStore();
  const written = countingIn(store);
  for (let made = 0; made < 3; made++) {
    (await written.reserve('s-1', 0, limits)).commit(1);
  }
  expect(await codeOf(written.reserve('s-1', 0, limits))).toBe('WORKSPACE_FULL');
  await written.close();
  await store.close();
});

test('two processes add to one count', async () => {
  const store = openMemoryStore();
  const both = [countingIn(store), countingIn(store)];
  for (const each of both) {
    (await each.reserve('s-1', 30, limits)).commit(1);
  }
  await Promise.all(both.map((each) => each.close()));
  const after = countingIn(store);
  expect(await codeOf(after.reserve('s-1', 41, limits))).toBe('WORKSPACE_FULL');
  expect(await codeOf(after.reserve('s-1', 40, limits))).toBeUndefined();
  await after.forget('s-1');
  expect(await codeOf(after.reserve('s-1', 100, limits))).toBeUndefined();
  await after.close();
  await store.close();
});

test('writes at the same time are no way round the bound', async () => {
  const store = openMemoryStore();
  const written = countingIn(store);
  const tried = await Promise.allSettled([1, 2, 3].map(() => written.reserve('s-1', 50, limits)));
  expect(tried.map(({ status }) => status)).toEqual(['fulfilled', 'fulfilled', 'rejected']);
  const [one, other] = tried.flatMap((each) => (each.status === 'fulfilled' ? [each.value] : []));
  one?.commit(1);
  expect(await codeOf(written.reserve('s-1', 1, limits))).toBe('WORKSPACE_FULL');
  other?.release();
  other?.release();
  (await written.reserve('s-1', 50, limits)).commit(1);
  expect(await codeOf(written.reserve('s-1', 1, limits))).toBe('WORKSPACE_FULL');
  const few = await Promise.allSettled([1, 2, 3, 4].map(() => written.reserve('s-2', 0, limits)));
  expect(few.filter(({ status }) => status === 'fulfilled')).toHaveLength(3);
  await written.close();
  await store.close();
});

const most = 5;

interface Scene {
  readonly store: SessionStore;
  advance(ms: number): void;
}

async function memoryScene(): Promise<Scene> {
  let now = Date.now();
  const store = openMemoryStore({ documentLimits: { documents: most }, now: () => now });
  const advance = (ms: number) => {
    now += ms;
  };
  return { store, advance };
}

async function sqliteScene(): Promise<Scene> {
  let now = Date.now();
  const folder = await mkdtemp(join(tmpdir(), 'ambit-written-'));
  leftover.push(folder);
  const store = await openSqliteStore({
    file: join(folder, 'sessions.db'),
    documentLimits: { documents: most },
    now: () => now,
  });
  const advance = (ms: number) => {
    now += ms;
  };
  return { store, advance };
}

const leftover: string[] = [];
afterEach(async () => {
  vi.useRealTimers();
  for (const folder of leftover.splice(0)) await rm(folder, { recursive: true, force: true });
});

/** Each is as long as ids are listed, so that the first is looked at first. */
const idAt = (index: number) => `s-${String(index).padStart(4, '0')}`;

async function open(store: SessionStore, index: number, ttlSeconds = 600): Promise<string> {
  const id = idAt(index);
  await store.create(draft({ id, ttlSeconds, lifetimeSeconds: 6000 }));
  return id;
}

/** Settles, as a process does that stops; another asks afterwards what is known. */
async function wrote(store: SessionStore, id: string, bytes: number): Promise<void> {
  const written = countingIn(store);
  (await written.reserve(id, bytes, limits)).commit(1);
  await written.close();
}

async function knownOf(store: SessionStore, id: string): Promise<number | undefined> {
  const found = await store.documents.get('files-written', id);
  return found && (JSON.parse(found.text) as { bytes: number }).bytes;
}

async function keysIn(store: SessionStore): Promise<string[]> {
  return (await store.documents.list('files-written', { limit: 1000 })).documents.map(({ key }) => key);
}

describe.each([
  ['memory', memoryScene],
  ['sqlite', sqliteScene],
])('%s: sessions that are gone', (_, scene) => {
  test('make room for those that are not', async () => {
    const { store, advance } = await scene();
    // Expired while nobody held it, ended by another process, and ended before a late count of it was written.
    const expired = await open(store, 0, 10);
    const ended = await open(store, 1);
    const live = [await open(store, 2), await open(store, 3)];
    for (const id of [expired, ended, ...live]) await wrote(store, id, 60);
    await store.end(ended);
    await wrote(store, idAt(4), 60);
    advance(11_000);
    expect(await keysIn(store)).toHaveLength(most);

    const newcomer = await open(store, 5);
    await wrote(store, newcomer, 60);
    expect(await keysIn(store)).toEqual([...live, newcomer]);
    for (const id of [...live, newcomer]) {
      const restarted = countingIn(store);
      expect(await codeOf(restarted.reserve(id, 41, limits))).toBe('WORKSPACE_FULL');
      expect(await codeOf(restarted.reserve(id, 40, limits))).toBeUndefined();
    }
    await store.close();
  });

  test('are not counted where there is no room', async () => {
    const { store } = await scene();
    for (let index = 0; index < most; index++) await wrote(store, await open(store, index), 1);
    const looked = vi.spyOn(store.documents, 'list');
    const late = await open(store, 7);
    const written = countingIn(store);
    (await written.reserve(late, 60, limits)).commit(1);
    await store.end(late);
    await written.close();
    expect(looked).not.toHaveBeenCalled();
    expect(await keysIn(store)).toEqual(Array.from({ length: most }, (_, index) => idAt(index)));
    await store.close();
  });
});

test('where all live, the count goes on in memory, whole, until there is room', async () => {
  vi.useFakeTimers({ toFake: ['performance'] });
  const { store } = await memoryScene();
  for (let index = 0; index < most; index++) await wrote(store, await open(store, index), 1);
  const newcomer = await open(store, 7);
  const written = countingIn(store);
  (await written.reserve(newcomer, 60, limits)).commit(1);
  await written.close();
  expect(await knownOf(store, newcomer)).toBeUndefined();
  expect(await codeOf(written.reserve(newcomer, 41, limits))).toBe('WORKSPACE_FULL');

  await store.end(idAt(0));
  vi.advanceTimersByTime(60_001);
  (await written.reserve(newcomer, 10, limits)).commit(1);
  await written.close();
  expect(await knownOf(store, newcomer)).toBe(70);
  expect(await codeOf(written.reserve(newcomer, 31, limits))).toBe('WORKSPACE_FULL');
  await store.close();
});

test('it is told by itself after a while, though the session writes no more', async () => {
  vi.useFakeTimers({ toFake: ['performance', 'setTimeout', 'clearTimeout'] });
  const { store } = await memoryScene();
  for (let index = 0; index < most; index++) await wrote(store, await open(store, index), 1);
  const newcomer = await open(store, 7);
  const written = countingIn(store);
  const puts = vi.spyOn(store.documents, 'put');
  (await written.reserve(newcomer, 60, limits)).commit(1);
  await vi.advanceTimersByTimeAsync(500);
  await vi.waitFor(() => expect(puts).toHaveBeenCalledTimes(1), 50_000);
  await store.end(idAt(3));
  await vi.advanceTimersByTimeAsync(61_000);
  vi.useRealTimers();
  await vi.waitFor(async () => expect(await knownOf(store, newcomer)).toBe(60), 50_000);
  await store.close();
});

test('a sweep that found little is not repeated for a minute, however many ask', async () => {
  vi.useFakeTimers({ toFake: ['performance'] });
  const { store } = await memoryScene();
  for (let index = 0; index < most; index++) await wrote(store, await open(store, index), 1);
  const list = vi.spyOn(store.documents, 'list');
  const written = countingIn(store);
  const ids = [await open(store, 7), await open(store, 8), await open(store, 9)];
  for (const id of ids) (await written.reserve(id, 1, limits)).commit(1);
  await written.close();
  expect(list).toHaveBeenCalledTimes(1);
  for (const id of ids) (await written.reserve(id, 1, limits)).commit(1);
  await written.close();
  expect(list).toHaveBeenCalledTimes(1);
  vi.advanceTimersByTime(60_001);
  for (const id of ids) (await written.reserve(id, 1, limits)).commit(1);
  await written.close();
  expect(list).toHaveBeenCalledTimes(2);
  await store.close();
});

test('one sweep looks at a bounded number, and the next goes on from there', async () => {
  vi.useFakeTimers({ toFake: ['performance'] });
  const store = openMemoryStore({ documentLimits: { documents: 1200 } });
  // The last one of all is gone; the others were never asked for in vain.
  for (let index = 0; index < 1200; index++) await store.documents.put('files-written', idAt(index), '{"bytes":1}');
  let asked = 0;
  const written = createWrittenSoFar({
    documents: store.documents,
    isGone: async (id) => {
      asked++;
      return id === idAt(1199);
    },
  });
  (await written.reserve('s-new', 1, limits)).commit(1);
  await written.close();
  // Each try of its own asks for the newcomer too.
  expect(asked).toBeLessThanOrEqual(1010);
  expect(await knownOf(store, 's-new')).toBeUndefined();
  vi.advanceTimersByTime(60_001);
  await written.close();
  expect(await knownOf(store, 's-new')).toBe(1);
  expect(await knownOf(store, idAt(1199))).toBeUndefined();
  await store.close();
});

test('a store that cannot say whether a session is there takes none for gone', async () => {
  const { store } = await memoryScene();
  for (let index = 0; index < most; index++) await wrote(store, await open(store, index), 1);
  const newcomer = await open(store, 7);
  let isAway = true;
  const written = createWrittenSoFar({
    documents: store.documents,
    isGone: async (id) => {
      if (isAway) throw new Error('away');
      return (await store.get(id)) === undefined;
    },
  });
  (await written.reserve(newcomer, 60, limits)).commit(1);
  await written.close();
  expect(await keysIn(store)).toHaveLength(most);
  isAway = false;
  await store.end(idAt(2));
  await written.close();
  expect(await knownOf(store, newcomer)).toBe(60);
  await store.close();
});

test('a document that is written while its session is looked for stays', async () => {
  const { store } = await memoryScene();
  for (let index = 0; index < most; index++) await wrote(store, await open(store, index), 1);
  const written = createWrittenSoFar({
    documents: store.documents,
    async isGone(id) {
      if (id === idAt(7)) return false;
      // As if the id was given again, and the new session wrote, between the answer and the removal.
      if (id === idAt(1)) await store.documents.put('files-written', id, '{"bytes":9,"entries":1}');
      return id === idAt(1) || id === idAt(2);
    },
  });
  (await written.reserve(idAt(7), 60, limits)).commit(1);
  await written.close();
  expect(await knownOf(store, idAt(1))).toBe(9);
  expect(await knownOf(store, idAt(2))).toBeUndefined();
  expect(await knownOf(store, idAt(7))).toBe(60);
  await store.close();
});
