import { randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createNewSession } from '../../src/public/testing/store-suite/harness.ts';
import { openMemoryStore } from '../../src/stores/memory/memory-store.ts';
import { openRedisStore } from '../../src/stores/redis/redis-store.ts';
import { openDatabase } from '../../src/stores/sqlite/driver.ts';
import { openSqliteStore } from '../../src/stores/sqlite/sqlite-store.ts';
import type { SessionStore } from '../../src/stores/store.ts';
import { findRedis, type RedisServer, startRedis } from './redis-server.ts';

const program = findRedis();
let folder: string;
let server: RedisServer | undefined;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'ambit-documents-'));
  if (program !== undefined) server = await startRedis(program);
});
afterAll(async () => {
  await server?.remove();
  await rm(folder, { recursive: true, force: true });
});

const stores: Record<string, () => Promise<SessionStore>> = {
  memory: async () => openMemoryStore(),
  sqlite: () => openSqliteStore({ file: join(folder, randomBytes(6).toString('hex')) }),
  ...(program === undefined ? {} : { redis: () => openRedisStore({ url: server?.url ?? '' }) }),
};

describe('documents at their real size', () => {
  test.each(Object.entries(stores))('%s: a page ends before it gets too big, and none is left out', async (_, open) => {
    const store = await open();
    const text = 'x'.repeat(131_072);
    const keys = Array.from({ length: 40 }, (_, index) => `k${String(index).padStart(2, '0')}`);
    for (const key of keys) expect((await store.documents.put('things', key, text)).outcome).toBe('written');
    expect(await store.documents.put('things', 'more', `${text}x`)).toEqual({ outcome: 'full', limit: 'textBytes' });
    const pages: string[][] = [];
    for (let after: string | null | undefined; after !== null; ) {
      const page = await store.documents.list('things', { prefix: 'k', limit: 1000, ...(after ? { after } : {}) });
      pages.push(page.documents.map(({ key }) => key));
      after = page.next;
    }
    expect(pages.map((page) => page.length)).toEqual([8, 8, 8, 8, 8]);
    expect(pages.flat()).toEqual(keys);
    await store.close();
  });
});

test('a file from before there were documents gets them, and keeps what it had', async () => {
  const file = join(folder, 'before.db');
  const first = await openSqliteStore({ file });
  const session = createNewSession();
  await first.create(session);
  await first.close();
  const database = openDatabase(file);
  database.exec(
    'DROP TABLE documents; DROP TABLE collections; ALTER TABLE changes DROP COLUMN origin; DROP TABLE messages; DROP TABLE results',
  );
  database.exec(
    'ALTER TABLE sessions DROP COLUMN message_pace_us; ALTER TABLE sessions DROP COLUMN last_message; ALTER TABLE sessions DROP COLUMN counts_workspace',
  );
  database.exec('PRAGMA user_version = 1');
  database.close();
  const store = await openSqliteStore({ file });
  expect((await store.get(session.id))?.id).toBe(session.id);
  expect((await store.documents.put('things', 'k', 'text')).outcome).toBe('written');
  await store.close();
});
