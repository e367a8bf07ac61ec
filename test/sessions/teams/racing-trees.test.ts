import { expect, test } from 'vitest';
import type { Session } from '../../../src/sessions/session.ts';
import { createSessions } from '../../../src/sessions/sessions.ts';
import { openMemoryStore } from '../../../src/stores/memory/memory-store.ts';
import type { SessionRecord } from '../../../src/stores/record.ts';
import type { SessionStore } from '../../../src/stores/store.ts';

const bounds = { ttlSeconds: 60, maxLifetimeSeconds: 300, maxSessions: 500, maxPerUser: 200 };
const wide = { userId: 'ada', trustLevel: 'direct', permissions: ['p'] } as const;

/** Two processes on one store. After each list that the first one reads, the second opens another grandchild. */
async function openRace(before: 'list' | 'end') {
  const store = openMemoryStore();
  const elsewhere = createSessions({ store, bounds });
  let child: Session | undefined;
  const grandchildren: string[] = [];
  async function openGrandchild(): Promise<void> {
    if (child === undefined || grandchildren.length > 20) return;
    const opened = await elsewhere.create({ ...wide, parentId: child.id }).catch(() => undefined);
    if (opened !== undefined) grandchildren.push(opened.session.id);
  }
  const raced: SessionStore = {
    ...store,
    async list(filter, page) {
      const found = await store.list(filter, page);
      if (before === 'list') await openGrandchild();
      return found;
    },
    async end(id, reason) {
      if (before === 'end') await openGrandchild();
      return store.end(id, reason);
    },
  };
  const here = createSessions({ store: raced, bounds });
  const { session: root } = await elsewhere.create(wide);
  child = (await elsewhere.create({ ...wide, parentId: root.id })).session;
  return {
    here,
    root,
    grandchildren,
    readAll: async (): Promise<SessionRecord[]> => (await store.list()).sessions as SessionRecord[],
    async close() {
      await Promise.all([here.close(), elsewhere.close()]);
      await store.close();
    },
  };
}

test.each(['list', 'end'] as const)(
  'an attack by opening grandchildren while the root is restricted or ended leaves none wide or alive, before each %s',
  async (before) => {
    const restricting = await openRace(before);
    await restricting.here.restrict(restricting.root.id, { trustLevel: 'sandboxed', permissions: [] });
    const all = await restricting.readAll();
    expect(all.length).toBeGreaterThanOrEqual(2);
    if (before === 'list') expect(restricting.grandchildren.length).toBeGreaterThan(0);
    expect(all.filter(({ trustLevel, permissions }) => trustLevel === 'direct' || permissions.length > 0)).toEqual([]);
    await restricting.close();
    const ending = await openRace(before);
    await ending.here.end(ending.root.id);
    expect(ending.grandchildren.length).toBeGreaterThan(0);
    expect(await ending.readAll()).toEqual([]);
    await ending.close();
  },
);
