import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { StoreKind } from '../store-kinds.ts';

/** The database is a file in the data directory. */
export const sqliteKind: StoreKind = {
  isDurable: true,
  async open(_settings, dataDir, options) {
    const { openSqliteStore } = await import('./sqlite-store.ts');
    await mkdir(dataDir, { recursive: true, mode: 0o700 });
    return openSqliteStore({ ...options, file: join(dataDir, 'sessions.db') });
  },
};
