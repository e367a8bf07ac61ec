import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { AmbitError } from '../errors.ts';
import { openMemoryStore } from './memory/memory-store.ts';
import { openRedisStore } from './redis/redis-store.ts';
import { openSqliteStore } from './sqlite/sqlite-store.ts';
import type { SessionStore, StoreOptions } from './store.ts';

/** The shape of `store` in the configuration. */
export interface StoreSettings {
  readonly kind: 'memory' | 'sqlite' | 'redis';
  readonly redis?: { readonly url: string };
}

/** The store the configuration names; a file lies in the data directory. */
export async function openStore(
  settings: StoreSettings,
  dataDir: string,
  options: StoreOptions = {},
): Promise<SessionStore> {
  if (settings.kind === 'memory') return openMemoryStore(options);
  if (settings.kind === 'redis') {
    if (settings.redis === undefined) throw new AmbitError('CONFIG_INVALID', { what: 'store.redis.url is missing.' });
    return openRedisStore({ ...options, url: settings.redis.url });
  }
  await mkdir(dataDir, { recursive: true, mode: 0o700 });
  return openSqliteStore({ ...options, file: join(dataDir, 'sessions.db') });
}
