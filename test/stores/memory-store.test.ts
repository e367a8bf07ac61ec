import { describe, test } from 'vitest';
import { describeSessionStore } from '../../src/public/testing/store-suite/describe-session-store.ts';
import { openMemoryStore } from '../../src/stores/memory/memory-store.ts';
import { createTestClock } from './test-clock.ts';

describeSessionStore(
  'memory',
  async (options) => {
    const { now, advance } = createTestClock();
    const store = openMemoryStore({ ...options, now });
    return { store, advance };
  },
  { describe, test },
);
