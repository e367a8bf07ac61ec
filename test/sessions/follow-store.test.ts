import { afterEach, beforeEach, expect, test } from 'vitest';
import { StaleSessionError } from '../../src/sessions/grants.ts';
import type { UnloadReason } from '../../src/sessions/session.ts';
import { createSessions, type Sessions } from '../../src/sessions/sessions.ts';
import type { Change } from '../../src/stores/feed.ts';
import { openMemoryStore } from '../../src/stores/memory/memory-store.ts';
import type { SessionStore } from '../../src/stores/store.ts';
import { createObstructedStore, type ObstructedStore } from './obstructed-store.ts';

const bounds = { ttlSeconds: 60, maxLifetimeSeconds: 300, maxSessions: 100, maxPerUser: 10 };
let store: SessionStore;
let between: ObstructedStore;
let sessions: Sessions;
/** Tells this process of a change; nothing else does, as when the connection to the store was lost. */
let tell: (change: Change) => void;
let left: [string, UnloadReason][];

beforeEach(() => {
  store = openMemoryStore();
  between = createObstructedStore(store);
  const silent = {
    ...between,
    watch(listener: (change: Change) => void) {
      tell = listener;
      return () => {};
    },
  };
  sessions = createSessions({ store: silent, bounds, now: () => 1_000_000 });
  left = [];
  sessions.onEnded(({ id }, reason) => left.push([id, reason]));
});
afterEach(async () => {
  await sessions.close();
  await store.close();
});

const open = async () => (await sessions.create({ userId: 'ada', trustLevel: 'direct' })).session;
const waitForTurn = () => new Promise((resolve) => setImmediate(resolve));

test('L4: after missed changes every loaded session is read again: ended ones are unloaded, restricted ones are restricted', async () => {
  const [ended, narrowed, same] = [await open(), await open(), await open()];
  await store.end(ended.id, 'revoked');
  await store.update(narrowed.id, 1, { trustLevel: 'sandboxed' });
  expect(sessions.get(ended.id)).toBeDefined();
  tell({ kind: 'lost' });
  await waitForTurn();
  expect(left).toEqual([[ended.id, 'revoked']]);
  expect(sessions.get(narrowed.id)?.trustLevel).toBe('sandboxed');
  expect(sessions.get(same.id)).toBe(same);
});

test('L4: after a change in the feed no earlier grant is used, even while the store does not answer', async () => {
  const session = await open();
  // A grant stays usable for a while after its call.
  const grant = await sessions.acquire(session, false);
  grant.owner.release(grant, false, 0);
  expect(sessions.acquire(session, false)).not.toBeInstanceOf(Promise);
  await store.update(session.id, 1, { trustLevel: 'sandboxed' });
  between.late.add('get');
  tell({ kind: 'changed', id: session.id, version: 2, restricted: true, here: false });
  await waitForTurn();
  await expect((async () => sessions.acquire(session, false))()).rejects.toBeInstanceOf(StaleSessionError);
  await between.letGo();
  expect(sessions.get(session.id)?.version).toBe(2);
});

test('L4: an end in the feed ends the session here without asking the store', async () => {
  const session = await open();
  between.asked.length = 0;
  tell({ kind: 'ended', id: session.id, reason: 'revoked', here: false });
  expect(left).toEqual([[session.id, 'revoked']]);
  expect(between.asked).toEqual([]);
});
