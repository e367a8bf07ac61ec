import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, expect, test } from 'vitest';
import { createSessions, type Sessions } from '../../src/sessions/sessions.ts';
import { openMemoryStore } from '../../src/stores/memory/memory-store.ts';
import { openSqliteStore } from '../../src/stores/sqlite/sqlite-store.ts';
import type { SessionStore } from '../../src/stores/store.ts';
import { counts } from '../proof.ts';

const bounds = { ttlSeconds: 600, maxLifetimeSeconds: 3600, maxSessions: 20, maxPerUser: 5 };
const others = bounds.maxSessions - bounds.maxPerUser;
const folders: string[] = [];
const open: { sessions: Sessions; store: SessionStore }[] = [];

afterEach(async () => {
  for (const { sessions, store } of open.splice(0)) {
    await sessions.close();
    await store.close();
  }
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true });
});

const stores = {
  memory: async () => openMemoryStore(),
  sqlite: () => {
    const folder = mkdtempSync(join(tmpdir(), 'ambit-one-user-'));
    folders.push(folder);
    return openSqliteStore({ file: join(folder, 'sessions.db') });
  },
};

test.each(Object.entries(stores))(
  'L5: one user who opens and ends sessions without pause pushes out nobody else’s, nor their copies: %s',
  async (_name, openStore) => {
    const store = await openStore();
    const sessions = createSessions({ store, bounds });
    open.push({ sessions, store });
    const create = (userId: string) => sessions.create({ userId, trustLevel: 'sandboxed' });
    const guests = [];
    for (let number = 0; number < others; number++) guests.push((await create(`user-${number}`)).session);
    const own: string[] = [];
    for (let round = 0; round < counts(40, 3000); round++) {
      const made = await create('greedy').catch(({ code }: { code: string }) => code);
      if (typeof made !== 'string') own.push(made.session.id);
      else {
        expect(made).toBe('SESSION_LIMIT');
        await sessions.end(own.shift() as string);
      }
      const session = await sessions.load(own.at(-1) as string);
      if (session === undefined) continue;
      const grant = await sessions.acquire(session, true);
      await grant.owner.release(grant, true, 0);
    }
    expect(own.length).toBeLessThanOrEqual(bounds.maxPerUser);
    for (const { id } of guests) {
      expect(await store.get(id)).toBeDefined();
      expect(sessions.get(id)).toBeDefined();
    }
    expect(sessions.loaded().length).toBeLessThanOrEqual(bounds.maxSessions);
  },
);

test('L5: a durable store keeps the row of an unloaded session, which is loaded again on request', async () => {
  const store = await stores.sqlite();
  const sessions = createSessions({ store, bounds: { ...bounds, maxPerUser: 1000 } });
  open.push({ sessions, store });
  const made = [];
  for (let number = 0; number < 3 * bounds.maxSessions; number++) {
    made.push(await sessions.create({ userId: 'ada', trustLevel: 'sandboxed' }));
  }
  expect(sessions.loaded().length).toBeLessThanOrEqual(bounds.maxSessions);
  const first = made[0] as (typeof made)[number];
  expect(sessions.get(first.session.id)).toBeUndefined();
  expect((await sessions.verifyToken(first.token)).id).toBe(first.session.id);
  expect(sessions.get(first.session.id)).toBeDefined();
  for (const { session } of made) expect(await store.get(session.id)).toBeDefined();
});
