import { randomBytes } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { afterAll, beforeAll, describe, test } from 'vitest';
import { describeSessionStore } from '../../src/public/testing/store-suite/describe-session-store.ts';
import { openRedisStore } from '../../src/stores/redis/redis-store.ts';
import { proof } from '../proof.ts';
import { findRedis, type RedisServer, startRedis } from './redis-server.ts';
import { createTestClock } from './test-clock.ts';

const program = findRedis();

/**
 * The nodes of a cluster need a port to talk to each other, though nobody talks here. This process has an address of its
 * own for it, so that the port is free.
 */
const own = `127.${[64 + ((process.pid >> 16) & 63), (process.pid >> 8) & 255, process.pid & 255].join('.')}`;
const cluster = ['--cluster-enabled', 'yes', '--cluster-port', '29517', '--bind', own];

/** That scripts touch one slot only shows in one rule of each concern; the others say nothing more of a cluster. */
let rules = 0;
function concern(name: string, define: () => void): void {
  describe(name, () => {
    rules = 0;
    define();
  });
}
function rule(name: string, run: () => Promise<void>): void {
  if (proof || ++rules === 1) test(name, run);
}

/** One node that has all slots: it refuses a script that touches two of them, as a node among many would. */
// Only Linux has all addresses that begin with 127.
describe.skipIf(program === undefined || process.platform !== 'linux')('a cluster', () => {
  let server: RedisServer;

  beforeAll(async () => {
    server = await startRedis(program as string, cluster);
    const client = new Redis(server.socket);
    await client.call('CLUSTER', 'ADDSLOTSRANGE', '0', '16383');
    while (!String(await client.call('CLUSTER', 'INFO')).includes('cluster_state:ok')) await delay(50);
    client.disconnect();
  });
  afterAll(() => server?.remove());

  describeSessionStore(
    'redis cluster',
    async (options) => {
      const { now, advance } = createTestClock();
      const name = randomBytes(6).toString('hex');
      const another = () => openRedisStore({ ...options, url: server.url, name, now });
      return { store: await another(), another, advance };
    },
    { describe: concern, test: rule },
  );
});
