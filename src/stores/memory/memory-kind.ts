import type { StoreKind } from '../store-kinds.ts';

export const memoryKind: StoreKind = {
  isDurable: false,
  open: async (_settings, _dataDir, options) => (await import('./memory-store.ts')).openMemoryStore(options),
};
