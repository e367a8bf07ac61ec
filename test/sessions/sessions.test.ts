import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { SessionBounds } from '../../src/sessions/create-session.ts';
import type { Grant } from '../../src/sessions/grants.ts';
import { type Session, sessionViewOf, type UnloadReason } from '../../src/sessions/session.ts';
import { createSessions, type Sessions } from '../../src/sessions/sessions.ts';
import { openMemoryStore } from '../../src/stores/memory/memory-store.ts';
import type { SessionChange, SessionRecord } from '../../src/stores/record.ts';
import type { SessionStore } from '../../src/stores/store.ts';
import { codeOf } from './code-of.ts';

const bounds: SessionBounds = { ttlSeconds: 60, maxLifetimeSeconds: 300, maxSessions: 5, maxPerUser: 3 };
let now = 1_000_000;
let store: SessionStore;
let sessions: Sessions;

beforeEach(() => {
  now = 1_000_000;
  store = openMemoryStore({ now: () => now });
  sessions = createSessions({ store, bounds, now: () => now });
});
afterEach(async () => {
  await sessions.close();
  await store.close();
});

const open = (draft: { name?: string; userId?: string } = {}) =>
  sessions.create({ userId: 'ada', trustLevel: 'sandboxed', ...draft });

async function useSession(session: Session): Promise<void> {
  const grant = await sessions.acquire(session, true);
  grant.owner.release(grant, true, 0);
}

describe('a session', () => {
  test('is verified by its token and by nothing else', async () => {
    const { session, token } = await open();
    expect((await sessions.verifyToken(token)).id).toBe(session.id);
    const other = (await open()).token;
    const [kind, , secret] = other.split('_');
    for (const wrong of ['', 'x', session.id, `${kind}_${session.id}_${secret}`, token.slice(0, -1)]) {
      expect(await codeOf(() => sessions.verifyToken(wrong))).toBe('UNAUTHENTICATED');
    }
  });

  test('L4: expires after its idle time, at once and strictly', async () => {
    const { session, token } = await open();
    now += 59_999;
    await useSession(session);
    now += 60_000;
    expect(await codeOf(() => useSession(session))).toBe('SESSION_EXPIRED');
    expect(sessions.get(session.id)).toBeUndefined();
    expect(await codeOf(() => sessions.verifyToken(token))).toBe('SESSION_EXPIRED');
  });

  test('L4: is kept while a request is under way, and counts its idle time from the end of it', async () => {
    const { session } = await open();
    const grant = (await sessions.acquire(session, false)) as Grant;
    for (let waited = 0; waited < 200_000; waited += 10_000) {
      now += 10_000;
      grant.owner.settle();
      await Promise.resolve();
    }
    expect(await store.get(session.id)).toBeDefined();
    grant.owner.release(grant, false, 0);
    now += 59_999;
    expect(await codeOf(() => useSession(session))).toBe('ok');
  });

  test('has a lifetime that no activity stretches', async () => {
    const { session, token } = await open();
    await sessions.acquire(session, true);
    for (let i = 0; i < 6; i++) {
      now += 50_000;
      await codeOf(() => useSession(session));
    }
    expect(await codeOf(() => useSession(session))).toBe('SESSION_EXPIRED');
    expect(await codeOf(() => sessions.verifyToken(token))).toBe('SESSION_EXPIRED');
  });

  test('L1: its record has all members, and only restrictions change it', async () => {
    const draft = { userId: 'ada', agentId: 'coder', workspaceId: 'w', name: 'n', metadata: { task: 49 } };
    const { session, record } = await sessions.create({ ...draft, trustLevel: 'direct', permissions: ['a', 'b'] });
    expect(record).toMatchObject({ ...draft, id: session.id, ttlSeconds: 60, createdAt: now, lastActiveAt: now });
    expect(record.tokenDigests).toHaveLength(1);
    expect(Object.isFrozen(session)).toBe(true);
    now += 1000;
    await useSession(session);
    await sessions.restrict(session.id, { trustLevel: 'sandboxed', permissions: ['a'] });
    const { lastActiveAt, expiresAt, ...after } = (await sessions.record(session.id)) as SessionRecord;
    const { lastActiveAt: _, expiresAt: __, ...before } = record;
    expect(lastActiveAt).toBe(now);
    expect(expiresAt).toBe(now + 60_000);
    expect(after).toEqual({ ...before, version: 2, trustLevel: 'sandboxed', permissions: ['a'] });
    for (const wider of [{ trustLevel: 'direct' }, { permissions: ['a', 'b'] }, { ttlSeconds: 61 }] as const) {
      expect(await codeOf(() => sessions.restrict(session.id, wider))).not.toBe('ok');
    }
    for (const change of [{ userId: 'eve' }, { workspaceId: 'x' }, { name: 'm' }, { agentId: 'b' }, { createdAt: 1 }]) {
      expect(await codeOf(() => store.update(session.id, 2, change as SessionChange))).toBe('REQUEST_INVALID');
    }
  });

  test('ends on request; its holder learns why, others learn nothing', async () => {
    const { session, token } = await open();
    expect(await sessions.end(session.id)).toBe(true);
    expect(await sessions.end(session.id)).toBe(false);
    expect(await codeOf(() => sessions.verifyToken(token))).toBe('SESSION_ENDED');
    const forged = `${(await open()).token.slice(0, 5)}${session.id}_${'0'.repeat(49)}`;
    expect(await codeOf(() => sessions.verifyToken(forged))).toBe('UNAUTHENTICATED');
  });

  test('is found by id, name and a prefix that fits only one', async () => {
    const { session } = await open({ name: 'task#049' });
    await open({ name: 'task#050' });
    for (const reference of [session.id, 'task#049', session.id.slice(0, 12)]) {
      expect((await sessions.find(reference))?.id).toBe(session.id);
    }
    expect(await sessions.find('')).toBeUndefined();
    expect(await sessions.find('task#')).toBeUndefined();
  });

  test('shows itself without its digest', async () => {
    const { session, record } = await open();
    const text = JSON.stringify([sessionViewOf(record), (await sessions.list()).sessions.map(sessionViewOf)]);
    expect(text).toContain(session.id);
    expect(text).not.toContain(session.tokenDigests[0]);
  });
});

describe('bounds', () => {
  test('names are unique per user among live sessions', async () => {
    const { session } = await open({ name: 'a' });
    expect(await codeOf(() => open({ name: 'a' }))).toBe('SESSION_EXISTS');
    expect(await codeOf(() => open({ name: 'a', userId: 'bob' }))).toBe('ok');
    await sessions.end(session.id);
    expect(await codeOf(() => open({ name: 'a' }))).toBe('ok');
  });

  test('L5: one user cannot use up all sessions', async () => {
    for (let i = 0; i < 3; i++) await open();
    expect(await codeOf(() => open())).toBe('SESSION_LIMIT');
    expect(await codeOf(() => open({ userId: 'bob' }))).toBe('ok');
  });

  test('L5: in memory the idlest session is evicted, never a busy one', async () => {
    const gone: [string, UnloadReason][] = [];
    sessions.onEnded((session, reason) => gone.push([session.id, reason]));
    const first = (await open({ userId: 'u0' })).session;
    await sessions.acquire(first, true);
    now += 1;
    const second = (await open({ userId: 'u1' })).session;
    for (let i = 2; i < 6; i++) {
      now += 1;
      await open({ userId: `u${i}` });
    }
    expect(gone).toEqual([[second.id, 'evicted']]);
  });

  test('when all sessions are busy, another one is refused', async () => {
    for (let i = 0; i < 5; i++) await sessions.acquire((await open({ userId: `u${i}` })).session, true);
    expect(await codeOf(() => open({ userId: 'late' }))).toBe('SESSION_LIMIT');
  });
});
