import { randomBytes } from 'node:crypto';
import { createServer } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { afterAll, beforeAll, describe, test } from 'vitest';
import { openRedisStore } from '../../src/stores/redis/redis-store.ts';
import { describeSessionStore } from '../../src/testing/store-suite/describe-session-store.ts';
import { findRedis, type RedisServer, startRedis } from './redis-server.ts';

const program = findRedis();

async function freePort(): Promise<number> {
  const probe = createServer().listen(0, '127.0.0.1');
  await new Promise((resolve) => probe.once('listening', resolve));
  const { port } = probe.address() as { port: number };
  await new Promise((resolve) => probe.close(resolve));
  return port;
}

/** One node that has all slots: it refuses a script that touches two of them, as a node among many would. */
describe.skipIf(program === undefined)('a cluster', () => {
  let server: RedisServer;

  beforeAll(async () => {
    const port = await freePort();
    const address = ['--port', String(port), '--bind', '127.0.0.1', '--cluster-announce-ip', '127.0.0.1'];
    const more = [...address, '--cluster-enabled', 'yes'];
    server = await startRedis(program as string, more);
    const client = new Redis(server.socket);
    await client.call('CLUSTER', 'ADDSLOTSRANGE', '0', '16383');
    while (!String(await client.call('CLUSTER', 'INFO')).includes('cluster_state:ok')) await delay(50);
    client.disconnect();
  });
  afterAll(() => server?.remove());

  describeSessionStore(
    'redis cluster',
    async (options) => {
      let now = Date.now();
      const name = randomBytes(6).toString('hex');
      const another = () => openRedisStore({ ...options, url: server.url, name, now: () => now });
      const advance = (ms: number) => {
        now += ms;
      };
      return { store: await another(), another, advance };
    },
    { describe, test },
  );
});
