import { beforeEach, describe, expect, test } from 'vitest';
import { isAmbitError } from '../../src/errors.ts';
import type { EndReason } from '../../src/sessions/session.ts';
import { createSessions, type SessionBounds, type Sessions } from '../../src/sessions/sessions.ts';

const bounds: SessionBounds = { ttlSeconds: 60, maxLifetimeSeconds: 300, maxSessions: 5, maxPerUser: 3 };
let now = 1_000_000;
let sessions: Sessions;

beforeEach(() => {
  now = 1_000_000;
  sessions = createSessions(bounds, () => now);
});

function codeOf(act: () => unknown): string {
  try {
    act();
  } catch (error) {
    if (isAmbitError(error)) return error.code;
    throw error;
  }
  return 'ok';
}

const open = (draft: { name?: string; userId?: string } = {}) =>
  sessions.create({ userId: 'ada', trustLevel: 'sandboxed', ...draft });

describe('a session', () => {
  test('is proven by its token and by nothing else', () => {
    const { session, token } = open();
    expect(sessions.prove(token).id).toBe(session.id);
    const other = open().token;
    const [kind, , secret] = other.split('_');
    for (const wrong of ['', 'x', session.id, `${kind}_${session.id}_${secret}`, token.slice(0, -1)]) {
      expect(codeOf(() => sessions.prove(wrong))).toBe('UNAUTHENTICATED');
    }
  });

  test('L4: expires after its idle time, at once and strictly', () => {
    const { session, token } = open();
    now += 59_999;
    expect(sessions.get(session.id)).toBeDefined();
    now += 1;
    expect(sessions.get(session.id)).toBeUndefined();
    expect(codeOf(() => sessions.prove(token))).toBe('SESSION_EXPIRED');
  });

  test('L4: is refreshed by each request, and kept while one is under way', () => {
    const { session } = open();
    const done = sessions.begin(session);
    now += 200_000;
    expect(sessions.get(session.id)).toBeDefined();
    done();
    done();
    now += 59_999;
    expect(sessions.get(session.id)).toBeDefined();
    now += 1;
    expect(sessions.get(session.id)).toBeUndefined();
  });

  test('has a lifetime that no activity stretches', () => {
    const { session, token } = open();
    sessions.begin(session);
    now += 300_000;
    expect(codeOf(() => sessions.prove(token))).toBe('SESSION_EXPIRED');
  });

  test('ends when told, and its holder is told so; to others it never was', () => {
    const { session, token } = open();
    expect(sessions.end(session.id)).toBe(true);
    expect(sessions.end(session.id)).toBe(false);
    expect(codeOf(() => sessions.prove(token))).toBe('SESSION_ENDED');
    const forged = `${open().token.slice(0, 5)}${session.id}_${'0'.repeat(49)}`;
    expect(codeOf(() => sessions.prove(forged))).toBe('UNAUTHENTICATED');
  });

  test('is found by id, name and a prefix that fits only one', () => {
    const { session } = open({ name: 'task#049' });
    open({ name: 'task#050' });
    expect(sessions.find(session.id)?.id).toBe(session.id);
    expect(sessions.find('task#049')?.id).toBe(session.id);
    expect(sessions.find(session.id.slice(0, 12))?.id).toBe(session.id);
    expect(sessions.find('')).toBeUndefined();
    expect(sessions.find('task#')).toBeUndefined();
  });

  test('shows itself without its digest', () => {
    const { session } = open();
    const text = JSON.stringify([sessions.view(session), sessions.list()]);
    expect(text).toContain(session.id);
    expect(text).not.toContain(session.tokenDigests[0]);
  });
});

describe('bounds', () => {
  test('names are unique per user among live sessions', () => {
    const { session } = open({ name: 'a' });
    expect(codeOf(() => open({ name: 'a' }))).toBe('SESSION_EXISTS');
    expect(codeOf(() => open({ name: 'a', userId: 'bob' }))).toBe('ok');
    sessions.end(session.id);
    expect(codeOf(() => open({ name: 'a' }))).toBe('ok');
  });

  test('one user cannot have them all', () => {
    for (let i = 0; i < 3; i++) open();
    expect(codeOf(() => open())).toBe('SESSION_LIMIT');
    expect(codeOf(() => open({ userId: 'bob' }))).toBe('ok');
  });

  test('the idlest makes room, never one that is at work', () => {
    const gone: [string, EndReason][] = [];
    sessions.onEnded((session, reason) => gone.push([session.id, reason]));
    const first = open({ userId: 'u0' }).session;
    sessions.begin(first);
    const second = open({ userId: 'u1' }).session;
    for (let i = 2; i < 6; i++) open({ userId: `u${i}` });
    expect(gone).toEqual([[second.id, 'evicted']]);
  });

  test('when all are at work, a further one is refused', () => {
    for (let i = 0; i < 5; i++) sessions.begin(open({ userId: `u${i}` }).session);
    expect(codeOf(() => open({ userId: 'late' }))).toBe('SESSION_LIMIT');
  });
});
