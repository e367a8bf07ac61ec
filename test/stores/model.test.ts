import { randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { openMemoryStore } from '../../src/stores/memory/memory-store.ts';
import { openRedisStore } from '../../src/stores/redis/redis-store.ts';
import { openSqliteStore } from '../../src/stores/sqlite/sqlite-store.ts';
import type { SessionStore } from '../../src/stores/store.ts';
import { counts } from '../proof.ts';
import { type Fault, faults, openFaultyStore } from './faulty-stores.ts';
import { createModel } from './model.ts';
import { storeCommands } from './model-commands.ts';
import { findRedis, type RedisServer, startRedis } from './redis-server.ts';

const program = findRedis();
let folder: string;
let server: RedisServer | undefined;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'ambit-model-'));
  if (program !== undefined) server = await startRedis(program);
});
afterAll(async () => {
  await server?.remove();
  await rm(folder, { recursive: true, force: true });
});

type Open = (now: () => number) => Promise<SessionStore>;
const fresh = () => randomBytes(6).toString('hex');
const stores: Record<string, { open: Open; runs: number }> = {
  memory: { open: async (now) => openMemoryStore({ now }), runs: counts(60, 10_000) },
  sqlite: { open: (now) => openSqliteStore({ file: join(folder, fresh()), now }), runs: counts(12, 1500) },
  ...(program === undefined
    ? {}
    : {
        redis: {
          open: (now) => openRedisStore({ url: server?.url ?? '', name: fresh(), now }),
          runs: counts(12, 1500),
        },
      }),
};

/** Noon, so that a day seldom ends in a run; some of the waits are long enough to make it. */
const start = Date.UTC(2030, 0, 1, 12);

async function compare(open: Open, runs: number, seed?: number): Promise<void> {
  await fc.assert(
    fc.asyncProperty(fc.commands(storeCommands, { maxCommands: 60, size: 'max' }), async (script) => {
      let now = start;
      const store = await open(() => now);
      const advance = (ms: number) => {
        now += ms;
      };
      try {
        await fc.asyncModelRun(() => ({ model: createModel(start), real: { store, leases: [], advance } }), script);
      } finally {
        await store.close();
      }
    }),
    // Of a lie it is enough that it is found; where it was not expected, the shortest way to it is worth its time.
    { numRuns: runs, ...(seed === undefined ? {} : { seed, endOnFailure: true }) },
  );
}

describe('L6: random operations, the store and a plain model side by side', () => {
  test.each(Object.entries(stores))('%s', (_name, { open, runs }) => compare(open, runs));

  // Where to begin: any seed finds them all, some of them late.
  test.each([
    ['drops the ttl of state', 1],
    ['charges the user for what it refuses', 1],
    ['lets an expired session in once more', 1],
    ['gives back more calls than were taken', 8],
  ])('a store that %s is found out', async (name, seed) => {
    const lie = faults[name] as Fault;
    await expect(compare(async (now) => openFaultyStore(lie, {}, now), 2000, seed)).rejects.toThrow('Property failed');
  });
});
