import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { ConfigInput } from '../../src/config/schema/schema.ts';
import { openRedisStore } from '../../src/stores/redis/redis-store.ts';
import type { SessionStore } from '../../src/stores/store.ts';
import { connectRawClient, eras, readRefusalCode } from '../journeys/abandoned/raw-client.ts';
import { proof } from '../proof.ts';
import { taggedProcesses, until } from '../sandbox/tagged-processes.ts';
import { findRedis, type RedisServer, startRedis } from '../stores/redis-server.ts';
import { createSharedData, type ServedGateway } from './shared-data.ts';

const program = join(import.meta.dirname, '..', 'journeys', 'abandoned', 'fixtures', 'upstream.js');
const servers = { it: { command: process.execPath, args: [program] }, other: { command: 'nothing' } };
const data = createSharedData();
const redisProgram = findRedis();
let redis: RedisServer | undefined;

beforeAll(async () => {
  if (redisProgram !== undefined) redis = await startRedis(redisProgram);
});
afterAll(() => redis?.remove());

const kinds = ['sqlite', ...(redisProgram === undefined ? [] : ['redis'])];

/** Each era and each store, but both of both only in the proof. */
const erasOn = (kind: string) =>
  eras.filter((era) => proof || kinds.length === 1 || (era === 'modern') === (kind === 'sqlite'));

async function pair(kind: string): Promise<readonly [ServedGateway, ServedGateway]> {
  const config: Partial<ConfigInput> = { servers };
  const store = (): Promise<SessionStore> | undefined =>
    kind === 'redis' && redis !== undefined ? openRedisStore({ url: redis.url }) : undefined;
  const one = async () => {
    const own = await store();
    return data.serve(config, own === undefined ? {} : { store: own });
  };
  return [await one(), await one()];
}

const processes = () => taggedProcesses(data.folder).length;
const untilGone = () =>
  until(
    () => processes() === 0,
    10_000,
    () => `${processes()} processes`,
  );

describe.each(kinds)('two gateways on one %s store', (kind) => {
  test.each(erasOn(kind))(
    'L16: what one ends, the other ends with all that is live of it, in the %s era',
    async (era) => {
      const [here, there] = await pair(kind);
      const { id, token } = await here.open();
      const visitor = await connectRawClient(era, { url: there.mcp('it'), token });
      await visitor.whoami();
      const [call, stream] = [visitor.call('hang'), visitor.stream()];
      await Promise.all([call.begun, stream.begun]);
      expect(processes()).toBe(1);
      expect(await here.gateway.sessions.end(id)).toBe(true);
      expect(readRefusalCode(await call.answered)).toBe('SESSION_ENDED');
      await stream.closed;
      await untilGone();
      expect(there.gateway.sessions.get(id)).toBeUndefined();
      expect(readRefusalCode(await visitor.call('whoami').answered)).toBe('SESSION_ENDED');
    },
  );

  test('L16: what one narrows, the other keeps within the new bounds', async () => {
    const [here, there] = await pair(kind);
    const { id, token } = await here.open();
    const visitor = await connectRawClient('modern', { url: there.mcp('it'), token });
    const call = visitor.call('hang');
    await call.begun;
    await here.gateway.restrictSession(id, { servers: ['other'] });
    expect(readRefusalCode(await call.answered)).toBe('SERVER_NOT_AVAILABLE');
    await untilGone();
    expect(readRefusalCode(await visitor.call('whoami').answered)).toBe('SERVER_NOT_AVAILABLE');
    expect(there.gateway.sessions.get(id)?.servers).toEqual(['other']);
  });
});
