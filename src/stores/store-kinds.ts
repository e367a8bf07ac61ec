import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import { AmbitError } from '../errors.ts';
import type { SessionStore, StoreOptions } from './store.ts';

/** A store that `store.kind` of the configuration can name. */
export interface StoreKind {
  /** The schema of `store.<kind>`. All its values count as secrets. Absent for a store without settings. */
  readonly settings?: z.ZodObject;
  /** True if records outlive the process, so that a command without a gateway can read them. */
  readonly isDurable: boolean;
  /** Opens the store. Its code is loaded here, so that a process loads only the store that it uses. */
  open(settings: unknown, dataDir: string, options: StoreOptions): Promise<SessionStore>;
}

const memoryKind: StoreKind = {
  isDurable: false,
  open: async (_settings, _dataDir, options) => (await import('./memory/memory-store.ts')).openMemoryStore(options),
};

/** The database is a file in the data directory. */
const sqliteKind: StoreKind = {
  isDurable: true,
  async open(_settings, dataDir, options) {
    const { openSqliteStore } = await import('./sqlite/sqlite-store.ts');
    await mkdir(dataDir, { recursive: true, mode: 0o700 });
    return openSqliteStore({ ...options, file: join(dataDir, 'sessions.db') });
  },
};

const redisSettings = z.strictObject({
  url: z
    .string()
    .regex(/^(?:rediss?|unix):\/\/[^\s\u0000-\u001f]+$/, {
      error: 'expected an address that starts with redis://, rediss:// or unix://',
    })
    .describe('URL of the Redis or Valkey server.'),
});

const redisKind: StoreKind = {
  settings: redisSettings,
  isDurable: true,
  async open(given, _dataDir, options) {
    if (given === undefined) throw new AmbitError('CONFIG_INVALID', { what: 'store.redis.url is missing.' });
    return (await import('./redis/redis-store.ts')).openRedisStore({ ...options, ...redisSettings.parse(given) });
  },
};

/** All stores. A new store is a folder, and its kind here. */
export const storeKinds = { memory: memoryKind, sqlite: sqliteKind, redis: redisKind } as const;

export type StoreKindName = keyof typeof storeKinds;

/** The shape of `store` in the configuration: the kind, and the settings of that kind under its name. */
export interface StoreSettings {
  readonly kind: StoreKindName;
  readonly [settings: string]: unknown;
}

/** Opens the configured store. */
export function openStore(settings: StoreSettings, dataDir: string, options: StoreOptions = {}): Promise<SessionStore> {
  return storeKinds[settings.kind].open(settings[settings.kind], dataDir, options);
}
