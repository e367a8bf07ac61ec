import { openMemoryStore, type StoreOptions } from '../../../src/stores/index.ts';

/** A store whose time is moved by hand. */
export function openClockedStore(options: StoreOptions = {}) {
  let at = Date.now();
  const now = () => at;
  return {
    now,
    store: openMemoryStore({ ...options, now }),
    pass(seconds: number) {
      at += seconds * 1000;
    },
  };
}
