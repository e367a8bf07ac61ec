import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, onTestFinished, test, vi } from 'vitest';
import { isAmbitError } from '../../src/errors.ts';
import { createNewSession } from '../../src/public/testing/store-suite/harness.ts';
import { openMemoryStore } from '../../src/stores/memory/memory-store.ts';
import { openSqliteStore } from '../../src/stores/sqlite/sqlite-store.ts';
import type { SessionStore } from '../../src/stores/store.ts';
import { createWriteQuota, type WriteQuota } from '../../src/workspaces/write-quota.ts';

const limits = { sessionBytes: 100, sessionEntries: 3 };

function openQuota(store: SessionStore): WriteQuota {
  return createWriteQuota({
    documents: store.documents,
    isEnded: async (id) => (await store.get(id)) === undefined,
  });
}

/** Closed after the test. */
function openMemory(options?: Parameters<typeof openMemoryStore>[0]): SessionStore {
  const store = openMemoryStore(options);
  onTestFinished(() => store.close());
  return store;
}

async function refusalCode(work: Promise<unknown>): Promise<string | undefined> {
  return work.then(
    () => undefined,
    (error: unknown) => (isAmbitError(error) ? error.code : String(error)),
  );
}

test('a session writes up to its limit of bytes, over all gateways', async () => {
  const store = openMemory();
  const one = openQuota(store);
  (await one.reserve('s-1', 60, limits)).commit(1);
  expect(await refusalCode(one.reserve('s-1', 41, limits))).toBe('WORKSPACE_FULL');
  expect(await refusalCode(one.reserve('s-1', 40, limits))).toBeUndefined();
  expect(await refusalCode(one.reserve('s-2', 100, limits))).toBeUndefined();
  await one.close();

  const other = openQuota(store);
  expect(await refusalCode(other.reserve('s-1', 41, limits))).toBe('WORKSPACE_FULL');
  expect(await refusalCode(other.reserve('s-1', 40, limits))).toBeUndefined();
  await other.close();
});

test('a session makes up to its limit of files and folders', async () => {
  const store = openMemory();
  const written = openQuota(store);
  for (let made = 0; made < 3; made++) {
    (await written.reserve('s-1', 0, limits)).commit(1);
  }
  expect(await refusalCode(written.reserve('s-1', 0, limits))).toBe('WORKSPACE_FULL');
  await written.close();
});

test('two processes add to one count', async () => {
  const store = openMemory();
  const both = [openQuota(store), openQuota(store)];
  for (const each of both) {
    (await each.reserve('s-1', 30, limits)).commit(1);
  }
  await Promise.all(both.map((each) => each.close()));
  const after = openQuota(store);
  expect(await refusalCode(after.reserve('s-1', 41, limits))).toBe('WORKSPACE_FULL');
  expect(await refusalCode(after.reserve('s-1', 40, limits))).toBeUndefined();
  await after.forget('s-1');
  expect(await refusalCode(after.reserve('s-1', 100, limits))).toBeUndefined();
  await after.close();
});

test('parallel writes do not exceed the limit', async () => {
  const store = openMemory();
  const written = openQuota(store);
  const tried = await Promise.allSettled([1, 2, 3].map(() => written.reserve('s-1', 50, limits)));
  expect(tried.map(({ status }) => status)).toEqual(['fulfilled', 'fulfilled', 'rejected']);
  const [one, other] = tried.flatMap((each) => (each.status === 'fulfilled' ? [each.value] : []));
  one?.commit(1);
  expect(await refusalCode(written.reserve('s-1', 1, limits))).toBe('WORKSPACE_FULL');
  other?.release();
  other?.release();
  (await written.reserve('s-1', 50, limits)).commit(1);
  expect(await refusalCode(written.reserve('s-1', 1, limits))).toBe('WORKSPACE_FULL');
  const few = await Promise.allSettled([1, 2, 3, 4].map(() => written.reserve('s-2', 0, limits)));
  expect(few.filter(({ status }) => status === 'fulfilled')).toHaveLength(3);
  await written.close();
});

const maxDocuments = 5;
const documentLimits = { documents: maxDocuments };

async function openSqlite(options: { now: () => number }): Promise<SessionStore> {
  const folder = await mkdtemp(join(tmpdir(), 'ambit-written-'));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  const store = await openSqliteStore({ file: join(folder, 'sessions.db'), documentLimits, ...options });
  onTestFinished(() => store.close());
  return store;
}

/** A store in which each live session has written once, and that takes no more. */
async function openFullStore(store = openMemory({ documentLimits })): Promise<SessionStore> {
  for (let index = 0; index < maxDocuments; index++) await recordWrite(store, await openSession(store, index), 1);
  return store;
}

afterEach(() => void vi.useRealTimers());

/** Each is as long as ids are listed, so that the first is looked at first. */
const sessionIdAt = (index: number) => `s-${String(index).padStart(4, '0')}`;

async function openSession(store: SessionStore, index: number, ttlSeconds = 600): Promise<string> {
  const id = sessionIdAt(index);
  await store.create(createNewSession({ id, ttlSeconds, lifetimeSeconds: 6000 }));
  return id;
}

/** Settles, as a process does that stops; another asks afterwards what is known. */
async function recordWrite(store: SessionStore, id: string, bytes: number): Promise<void> {
  const written = openQuota(store);
  (await written.reserve(id, bytes, limits)).commit(1);
  await written.close();
}

async function readStoredBytes(store: SessionStore, id: string): Promise<number | undefined> {
  const found = await store.documents.get('files-written', id);
  return found && (JSON.parse(found.text) as { bytes: number }).bytes;
}

async function listKeys(store: SessionStore): Promise<string[]> {
  return (await store.documents.list('files-written', { limit: 1000 })).documents.map(({ key }) => key);
}

describe.each([
  ['memory', async (options: { now: () => number }) => openMemory({ documentLimits, ...options })],
  ['sqlite', openSqlite],
] as const)('%s: sessions that are gone', (_, open) => {
  test('make room for live sessions', async () => {
    let now = Date.now();
    const store = await open({ now: () => now });
    // Expired while nobody held it, ended by another process, and ended before a late count of it was written.
    const expired = await openSession(store, 0, 10);
    const ended = await openSession(store, 1);
    const live = [await openSession(store, 2), await openSession(store, 3)];
    for (const id of [expired, ended, ...live]) await recordWrite(store, id, 60);
    await store.end(ended);
    await recordWrite(store, sessionIdAt(4), 60);
    now += 11_000;
    expect(await listKeys(store)).toHaveLength(maxDocuments);

    const newcomer = await openSession(store, 5);
    await recordWrite(store, newcomer, 60);
    expect(await listKeys(store)).toEqual([...live, newcomer]);
    for (const id of [...live, newcomer]) {
      const restarted = openQuota(store);
      expect(await refusalCode(restarted.reserve(id, 41, limits))).toBe('WORKSPACE_FULL');
      expect(await refusalCode(restarted.reserve(id, 40, limits))).toBeUndefined();
    }
  });

  test('are not counted when the store is full', async () => {
    const store = await openFullStore(await open({ now: Date.now }));
    const looked = vi.spyOn(store.documents, 'list');
    const late = await openSession(store, 7);
    const written = openQuota(store);
    (await written.reserve(late, 60, limits)).commit(1);
    await store.end(late);
    await written.close();
    expect(looked).not.toHaveBeenCalled();
    expect(await listKeys(store)).toEqual(Array.from({ length: maxDocuments }, (_, index) => sessionIdAt(index)));
  });
});

test('when all sessions live, the whole count stays in memory until there is room', async () => {
  vi.useFakeTimers({ toFake: ['performance'] });
  const store = await openFullStore();
  const newcomer = await openSession(store, 7);
  const written = openQuota(store);
  (await written.reserve(newcomer, 60, limits)).commit(1);
  await written.close();
  expect(await readStoredBytes(store, newcomer)).toBeUndefined();
  expect(await refusalCode(written.reserve(newcomer, 41, limits))).toBe('WORKSPACE_FULL');

  await store.end(sessionIdAt(0));
  vi.advanceTimersByTime(60_001);
  (await written.reserve(newcomer, 10, limits)).commit(1);
  await written.close();
  expect(await readStoredBytes(store, newcomer)).toBe(70);
  expect(await refusalCode(written.reserve(newcomer, 31, limits))).toBe('WORKSPACE_FULL');
});

test('the count is stored after a while, even if the session writes no more', async () => {
  vi.useFakeTimers({ toFake: ['performance', 'setTimeout', 'clearTimeout'] });
  const store = await openFullStore();
  const newcomer = await openSession(store, 7);
  const written = openQuota(store);
  const puts = vi.spyOn(store.documents, 'put');
  (await written.reserve(newcomer, 60, limits)).commit(1);
  await vi.advanceTimersByTimeAsync(500);
  await vi.waitFor(() => expect(puts).toHaveBeenCalledTimes(1), 50_000);
  await store.end(sessionIdAt(3));
  await vi.advanceTimersByTimeAsync(61_000);
  vi.useRealTimers();
  await vi.waitFor(async () => expect(await readStoredBytes(store, newcomer)).toBe(60), 50_000);
});

test('a sweep that found little is not repeated for a minute', async () => {
  vi.useFakeTimers({ toFake: ['performance'] });
  const store = await openFullStore();
  const list = vi.spyOn(store.documents, 'list');
  const written = openQuota(store);
  const ids = [await openSession(store, 7), await openSession(store, 8), await openSession(store, 9)];
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
});

test('one sweep checks a bounded number, and the next continues there', async () => {
  vi.useFakeTimers({ toFake: ['performance'] });
  const store = openMemory({ documentLimits: { documents: 1200 } });
  // The last one of all is gone; the others were never asked for in vain.
  for (let index = 0; index < 1200; index++)
    await store.documents.put('files-written', sessionIdAt(index), '{"bytes":1}');
  let asked = 0;
  const written = createWriteQuota({
    documents: store.documents,
    isEnded: async (id) => {
      asked++;
      return id === sessionIdAt(1199);
    },
  });
  (await written.reserve('s-new', 1, limits)).commit(1);
  await written.close();
  // Each try of its own asks for the newcomer too.
  expect(asked).toBeLessThanOrEqual(1010);
  expect(await readStoredBytes(store, 's-new')).toBeUndefined();
  vi.advanceTimersByTime(60_001);
  await written.close();
  expect(await readStoredBytes(store, 's-new')).toBe(1);
  expect(await readStoredBytes(store, sessionIdAt(1199))).toBeUndefined();
});

test('a store that fails to find a session does not count it as ended', async () => {
  const store = await openFullStore();
  const newcomer = await openSession(store, 7);
  let isAway = true;
  const written = createWriteQuota({
    documents: store.documents,
    isEnded: async (id) => {
      if (isAway) throw new Error('away');
      return (await store.get(id)) === undefined;
    },
  });
  (await written.reserve(newcomer, 60, limits)).commit(1);
  await written.close();
  expect(await listKeys(store)).toHaveLength(maxDocuments);
  isAway = false;
  await store.end(sessionIdAt(2));
  await written.close();
  expect(await readStoredBytes(store, newcomer)).toBe(60);
});

test('a document written during the check of its session stays', async () => {
  const store = await openFullStore();
  const written = createWriteQuota({
    documents: store.documents,
    async isEnded(id) {
      if (id === sessionIdAt(7)) return false;
      // As if the id was given again, and the new session wrote, between the answer and the removal.
      if (id === sessionIdAt(1)) await store.documents.put('files-written', id, '{"bytes":9,"entries":1}');
      return id === sessionIdAt(1) || id === sessionIdAt(2);
    },
  });
  (await written.reserve(sessionIdAt(7), 60, limits)).commit(1);
  await written.close();
  expect(await readStoredBytes(store, sessionIdAt(1))).toBe(9);
  expect(await readStoredBytes(store, sessionIdAt(2))).toBeUndefined();
  expect(await readStoredBytes(store, sessionIdAt(7))).toBe(60);
});
