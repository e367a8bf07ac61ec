import type { z } from 'zod';
import { redisKind } from './redis/redis-kind.ts';
import { sqliteKind } from './sqlite/sqlite-kind.ts';
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

/** All stores. A new store is a folder and a line here. */
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
