import { afterEach, beforeEach, expect, test } from 'vitest';
import { StaleSession } from '../../src/sessions/grants.ts';
import type { LeaveReason } from '../../src/sessions/session.ts';
import { createSessions, type Sessions } from '../../src/sessions/sessions.ts';
import type { Change } from '../../src/stores/feed.ts';
import { openMemoryStore } from '../../src/stores/memory/memory-store.ts';
import type { SessionStore } from '../../src/stores/store.ts';
import { type ObstructedStore, obstructed } from './obstructed-store.ts';

const bounds = { ttlSeconds: 60, maxLifetimeSeconds: 300, maxSessions: 100, maxPerUser: 10 };
let store: SessionStore;
let between: ObstructedStore;
let sessions: Sessions;
/** Tells this process of a change; nothing else does, as when the connection to the store was lost. */
let tell: (change: Change) => void;
let left: [string, LeaveReason][];

beforeEach(() => {
  store = openMemoryStore();
  between = obstructed(store);
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
const turns = () => new Promise((resolve) => setImmediate(resolve));

test('L4: after changes were missed, every session held is read again: what ended leaves, what was narrowed is narrow', async () => {
  const [ended, narrowed, same] = [await open(), await open(), await open()];
  await store.end(ended.id, 'revoked');
  await store.update(narrowed.id, 1, { trustLevel: 'sandboxed' });
  expect(sessions.get(ended.id)).toBeDefined();
  tell({ kind: 'lost' });
  await turns();
  expect(left).toEqual([[ended.id, 'revoked']]);
  expect(sessions.get(narrowed.id)?.trustLevel).toBe('sandboxed');
  expect(sessions.get(same.id)).toBe(same);
});

test('L4: once a change is told, nothing granted before it is used, even while the store does not answer', async () => {
  const session = await open();
  // A grant stays usable for a while after its call.
  const grant = await sessions.enter(session, false);
  grant.of.leave(grant, false, 0);
  expect(sessions.enter(session, false)).not.toBeInstanceOf(Promise);
  await store.update(session.id, 1, { trustLevel: 'sandboxed' });
  between.late.add('get');
  tell({ kind: 'changed', id: session.id, version: 2, restricted: true, here: false });
  await turns();
  await expect((async () => sessions.enter(session, false))()).rejects.toBeInstanceOf(StaleSession);
  await between.letGo();
  expect(sessions.get(session.id)?.version).toBe(2);
});

test('L4: an end that is told ends the session here without asking the store', async () => {
  const session = await open();
  between.asked.length = 0;
  tell({ kind: 'ended', id: session.id, reason: 'revoked', here: false });
  expect(left).toEqual([[session.id, 'revoked']]);
  expect(between.asked).toEqual([]);
});
