import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { AmbitError } from '../errors.ts';
import type { SessionStore, StoreOptions } from './store.ts';

/** The shape of `store` in the configuration. */
export interface StoreSettings {
  readonly kind: 'memory' | 'sqlite' | 'redis';
  readonly redis?: { readonly url: string };
}

/** Opens the configured store and loads no other. A database file lies in the data directory. */
export async function openStore(
  settings: StoreSettings,
  dataDir: string,
  options: StoreOptions = {},
): Promise<SessionStore> {
  if (settings.kind === 'memory') return (await import('./memory/memory-store.ts')).openMemoryStore(options);
  if (settings.kind === 'redis') {
    if (settings.redis === undefined) throw new AmbitError('CONFIG_INVALID', { what: 'store.redis.url is missing.' });
    const { openRedisStore } = await import('./redis/redis-store.ts');
    return openRedisStore({ ...options, url: settings.redis.url });
  }
  const { openSqliteStore } = await import('./sqlite/sqlite-store.ts');
  await mkdir(dataDir, { recursive: true, mode: 0o700 });
  return openSqliteStore({ ...options, file: join(dataDir, 'sessions.db') });
}
