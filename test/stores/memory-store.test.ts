import { describe, test } from 'vitest';
import { describeSessionStore } from '../../src/public/testing/store-suite/describe-session-store.ts';
import { openMemoryStore } from '../../src/stores/memory/memory-store.ts';
import { nextNoon } from './next-noon.ts';

describeSessionStore(
  'memory',
  async (options) => {
    let now = nextNoon();
    const store = openMemoryStore({ ...options, now: () => now });
    const advance = (ms: number) => {
      now += ms;
    };
    return { store, advance };
  },
  { describe, test },
);
