import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, describe, test } from 'vitest';
import { describeSessionStore } from '../../src/public/testing/store-suite/describe-session-store.ts';
import { openRedisStore } from '../../src/stores/redis/redis-store.ts';
import { findRedis, type RedisServer, startRedis } from './redis-server.ts';
import { createTestClock } from './test-clock.ts';

const program = findRedis();

describe.skipIf(program === undefined)('with a real server', () => {
  let server: RedisServer;
  beforeAll(async () => {
    server = await startRedis(program as string);
  });
  afterAll(() => server?.remove());

  describeSessionStore(
    'redis',
    async (options) => {
      const { now, advance } = createTestClock();
      const name = randomBytes(6).toString('hex');
      const another = () => openRedisStore({ ...options, url: server.url, name, now });
      return { store: await another(), another, advance };
    },
    { describe, test },
  );
});
