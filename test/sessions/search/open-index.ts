import { createNewSession } from '../../../src/public/testing/store-suite/harness.ts';
import {
  createSessionIndex,
  type SessionIndex,
  type SessionQuery,
} from '../../../src/sessions/search/session-index.ts';
import { openMemoryStore } from '../../../src/stores/memory/memory-store.ts';
import type { NewSession, SessionRecord } from '../../../src/stores/record.ts';
import type { SessionStore, StoreOptions } from '../../../src/stores/store.ts';
import { createTestClock } from '../../stores/test-clock.ts';

export interface IndexTest {
  readonly store: SessionStore;
  readonly index: SessionIndex;
  readonly now: () => number;
  advance(ms: number): void;
  /** Opens a session and tells the index. Without changes it has no texts. */
  open(changes?: Partial<NewSession>): Promise<SessionRecord>;
  find(changes?: Partial<SessionQuery>): ReturnType<SessionIndex['search']>;
  /** The same for ids only. */
  findIds(changes?: Partial<SessionQuery>): Promise<string[]>;
}

const noTexts = { name: null, task: null, metadata: {}, permissions: [], lifetimeSeconds: 3600, ttlSeconds: 3600 };

/** Notes are written when an index is closed, unless a test says otherwise. */
const neverMs = 1_000_000_000;

/** An index on a store, with a clock that the test moves. */
export function openIndex(
  store: SessionStore,
  { now, advance }: Pick<IndexTest, 'now' | 'advance'>,
  index = createSessionIndex({ store, now, saveDelayMs: neverMs }),
): IndexTest {
  const find: IndexTest['find'] = (changes = {}) =>
    index.search({ userId: 'ada', workspaceId: 'garden', text: '', limit: 50, isVisible: () => true, ...changes });
  return {
    store,
    index,
    now,
    advance,
    async open(changes = {}) {
      const created = await store.create(createNewSession({ ...noTexts, ...changes }));
      if (created.outcome !== 'created') throw new Error(JSON.stringify(created));
      index.opened(created.record);
      return created.record;
    },
    find,
    findIds: async (changes) => (await find(changes)).map(({ id }) => id),
  };
}

export function openIndexInMemory(options: StoreOptions = {}): IndexTest {
  const clock = createTestClock();
  return openIndex(openMemoryStore({ now: clock.now, ...options }), clock);
}

/** Another index on the same store, as in another process. */
export function openAnotherIndex({ store, now, advance }: IndexTest): IndexTest {
  return openIndex(store, { now, advance });
}
