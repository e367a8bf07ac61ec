import { Redis } from 'ioredis';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { acquireLease, createNewSession } from '../../src/public/testing/store-suite/harness.ts';
import { openRedisStore } from '../../src/stores/redis/redis-store.ts';
import { findRedis, type RedisServer, startRedis } from './redis-server.ts';
import { createTestClock } from './test-clock.ts';

const program = findRedis();

describe.skipIf(program === undefined)('what is left of places in Redis', () => {
  let server: RedisServer;
  beforeAll(async () => {
    server = await startRedis(program as string);
  });
  afterAll(() => server?.remove());

  test('is nothing, once they are released, have run out, or their session is gone', async () => {
    const { now, advance } = createTestClock();
    const store = await openRedisStore({ url: server.url, name: 'leftovers', now });
    const client = new Redis(server.socket);
    const left = async () => {
      const keys = await client.keys('{leftovers}:[hlc]:*');
      return keys.map((key) => key.replace('{leftovers}:', '')).sort();
    };
    try {
      for (const id of ['one', 'two']) await store.create(createNewSession({ id }));
      const lease = await acquireLease(store, { id: 'one', places: 3 });
      expect(await left()).toEqual(['c:one', 'c:u:ada', 'c:w:garden', 'h:one', 'l:one']);
      await store.renew('one', lease, 30_000, { places: 2 });
      expect(await client.zcard('{leftovers}:c:u:ada')).toBe(1);
      await store.renew('one', lease, 30_000, { places: 0 });
      expect(await left()).toEqual(['h:one', 'l:one']);
      await store.release('one', lease);
      expect(await left()).toEqual([]);

      await acquireLease(store, { id: 'one', places: 3, holdMs: 1000 });
      advance(1000);
      const kept = await acquireLease(store, { id: 'one', places: 2 });
      expect(await client.hkeys('{leftovers}:l:one')).toEqual([kept]);
      expect(await client.zrange('{leftovers}:h:one', '0', '-1')).toEqual([kept]);
      expect(await client.zcard('{leftovers}:c:w:garden')).toBe(1);
      const other = await acquireLease(store, { id: 'two', places: 2 });
      await store.end('one');
      expect(await client.zrange('{leftovers}:c:u:ada', '0', '-1')).toEqual([`${other} 2`]);
      expect(await left()).toEqual(['c:two', 'c:u:ada', 'c:w:garden', 'h:two', 'l:two']);
      advance(600_000);
      await store.sweep();
      expect(await left()).toEqual([]);
    } finally {
      client.disconnect();
      await store.close();
    }
  });
});
