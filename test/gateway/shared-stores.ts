import { join } from 'node:path';
import { afterAll, beforeAll } from 'vitest';
import type { ConfigInput } from '../../src/config/schema/schema.ts';
import { openRedisStore } from '../../src/stores/redis/redis-store.ts';
import { openSqliteStore } from '../../src/stores/sqlite/sqlite-store.ts';
import { eras } from '../journeys/abandoned/raw-client.ts';
import { proof } from '../proof.ts';
import { taggedProcesses, until } from '../sandbox/tagged-processes.ts';
import { findRedis, type RedisServer, startRedis } from '../stores/redis-server.ts';
import type { ServedGateway, SharedData } from './shared-data.ts';

const program = findRedis();

export const storeKinds = ['sqlite', ...(program === undefined ? [] : ['redis'])];

/** Each era and each store, but both of both only in the proof. */
export const erasOn = (kind: string) =>
  eras.filter((era) => proof || storeKinds.length === 1 || (era === 'modern') === (kind === 'sqlite'));

export function untilProcessesGone({ folder }: SharedData): Promise<number> {
  const isGone = () => taggedProcesses(folder).length === 0;
  return until(isGone, 10_000, () => `processes are left: ${taggedProcesses(folder)}`);
}

/** Opens two gateways on one store; on one of their own if it has a name. The tests of a file share one Redis. */
export function createPairs(data: SharedData) {
  let redis: RedisServer | undefined;
  beforeAll(async () => {
    if (program !== undefined) redis = await startRedis(program);
  });
  afterAll(() => redis?.remove());

  return async function openPair(kind: string, config: Partial<ConfigInput>, name?: string) {
    const openStore = () => {
      const url = redis?.url ?? '';
      if (kind === 'redis') return openRedisStore(name === undefined ? { url } : { url, name });
      return name === undefined ? undefined : openSqliteStore({ file: join(data.folder, `${name}.db`) });
    };
    const serve = async (): Promise<ServedGateway> => {
      const store = await openStore();
      return data.serve(config, store === undefined ? {} : { store });
    };
    return [await serve(), await serve()] as const;
  };
}
