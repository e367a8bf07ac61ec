import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { createNewSession } from '../../src/public/testing/store-suite/harness.ts';
import { openRedisStore } from '../../src/stores/redis/redis-store.ts';
import type { SessionStore } from '../../src/stores/store.ts';
import { findRedis, type RedisServer, startRedis } from './redis-server.ts';

const program = findRedis();
const away = { code: 'STORE_UNAVAILABLE' };
/** As long as a test may take: on a slow machine nothing is refused but what has to be. */
const patienceMs = 50_000;
const lasting = ['--appendonly', 'yes', '--appendfsync', 'always'];

async function comesBack(store: SessionStore): Promise<void> {
  for (;;) {
    const there = await store.ping().then(
      () => true,
      () => false,
    );
    if (there) return;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

describe.skipIf(program === undefined)('a server in trouble', () => {
  let server: RedisServer;
  let store: SessionStore;
  beforeEach(async () => {
    server = await startRedis(program as string, lasting);
    store = await openRedisStore({ url: server.url, patienceMs });
  });
  afterEach(async () => {
    vi.useRealTimers();
    await store.close();
    await server.remove();
  });

  test('L6: it goes away under load: only right answers and refusals; it comes back with all that was acknowledged', async () => {
    const acknowledged: string[] = [];
    const refusals: unknown[] = [];
    let working = true;
    const lanes = Array.from({ length: 8 }, async () => {
      while (working) {
        const session = createNewSession();
        try {
          const { outcome } = await store.create(session);
          if (outcome === 'created') acknowledged.push(session.id);
        } catch (error) {
          refusals.push(error);
          await new Promise((resolve) => setTimeout(resolve, 5));
        }
      }
    });
    const enough = async (list: unknown[], count: number) => {
      while (list.length < count) await new Promise((resolve) => setTimeout(resolve, 5));
    };
    await enough(acknowledged, 50);
    await server.stop();
    await enough(refusals, 20);
    await server.start();
    await enough(acknowledged, acknowledged.length + 50);
    working = false;
    await Promise.all(lanes);
    for (const error of refusals) expect(error).toMatchObject(away);
    for (const id of acknowledged) expect((await store.get(id))?.id).toBe(id);
  });

  test('listeners learn that changes may be lost, and get later ones', async () => {
    const heard: string[] = [];
    const lost = new Promise<void>((resolve) => {
      store.watch(({ kind }) => {
        heard.push(kind);
        if (kind === 'lost') resolve();
      });
    });
    await server.stop();
    await server.start();
    await Promise.all([lost, comesBack(store)]);
    const created = new Promise<void>((resolve) => void store.watch(({ kind }) => kind === 'created' && resolve()));
    await store.create(createNewSession());
    await created;
    expect(heard).toContain('lost');
  });

  test('it stands still: refused in bounded time, and there again when it goes on', async () => {
    const session = createNewSession();
    await store.create(session);
    const hasty = await openRedisStore({ url: server.url, patienceMs: 300 });
    server.process.kill('SIGSTOP');
    await expect(hasty.admit({ id: session.id })).rejects.toMatchObject(away);
    await expect(hasty.ping()).rejects.toMatchObject(away);
    server.process.kill('SIGCONT');
    await comesBack(hasty);
    await hasty.close();
    expect((await store.get(session.id))?.id).toBe(session.id);
  });

  test('it is not there yet: the store opens, refuses, and is there when the server is', async () => {
    await server.stop();
    const early = await openRedisStore({ url: server.url, patienceMs });
    await expect(early.create(createNewSession())).rejects.toMatchObject(away);
    await server.start();
    await comesBack(early);
    expect((await early.create(createNewSession())).outcome).toBe('created');
    await early.close();
    await comesBack(store);
  });

  test('a read-only server refuses writes with its own error code', async () => {
    const session = createNewSession();
    await store.create(session);
    const { Redis } = await import('ioredis');
    const client = new Redis(server.socket);
    await client.config('SET', 'maxmemory', '1');
    await expect(store.create(createNewSession())).rejects.toMatchObject({
      ...away,
      message: 'The session store answered with the error OOM.',
    });
    await client.config('SET', 'maxmemory', '0');
    client.disconnect();
    expect((await store.create(createNewSession())).outcome).toBe('created');
  });

  test('scripts it has forgotten are sent again', async () => {
    await store.create(createNewSession());
    const { Redis } = await import('ioredis');
    const client = new Redis(server.socket);
    await client.script('FLUSH');
    client.disconnect();
    expect((await store.create(createNewSession())).outcome).toBe('created');
  });

  test('a failure does not show the password', async () => {
    const secret = 'hunter2-very-secret';
    const locked = await openRedisStore({ url: `redis://:${secret}@127.0.0.1:1/`, patienceMs: 300 });
    const error = await locked.ping().catch((thrown: unknown) => thrown);
    expect(error).toMatchObject(away);
    expect(JSON.stringify(error, Object.getOwnPropertyNames(error)) + String((error as Error).stack)).not.toContain(
      secret,
    );
    await locked.close();
  });

  test('the clock is the server’s, whatever ours says', async () => {
    vi.useFakeTimers({ toFake: ['Date'], now: 0 });
    const session = createNewSession();
    const created = await store.create(session);
    expect(created).toMatchObject({ outcome: 'created' });
    const { createdAt = 0 } = (await store.get(session.id)) ?? {};
    expect(createdAt).toBeGreaterThan(Date.UTC(2025, 0));
  });
});
