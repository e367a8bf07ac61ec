import { beforeEach, describe, expect, test } from 'vitest';
import { loadConfig } from '../../src/config/load.ts';
import type { Config } from '../../src/config/schema.ts';
import { isAmbitError } from '../../src/errors.ts';
import { openSession } from '../../src/sessions/open-session.ts';
import { restrictSession } from '../../src/sessions/restrict-session.ts';
import type { Narrowing, Session, SessionDraft } from '../../src/sessions/session.ts';
import { createSessions, mostTokens, type Sessions } from '../../src/sessions/sessions.ts';

let now = 1_000_000;
let config: Config;
let sessions: Sessions;

beforeEach(async () => {
  now = 1_000_000;
  const text = 'version: 1\nservers: { a: { command: x }, b: { command: x }, notes: { command: x } }';
  ({ config } = await loadConfig({ text, file: '/etc/ambit/ambit.yaml' }));
  sessions = createSessions(config.sessions, () => now);
});

const open = (draft: SessionDraft = {}) => openSession(sessions, config, draft);

function codeOf(act: () => unknown): string {
  try {
    act();
  } catch (error) {
    if (isAmbitError(error)) return error.code;
    throw error;
  }
  return 'ok';
}

describe('P14: a session limited to named servers', () => {
  test('keeps its list, each name once, and shows it', () => {
    const { session } = open({ servers: ['a', 'b', 'a'] });
    expect(session.servers).toEqual(['a', 'b']);
    expect(sessions.view(session).servers).toEqual(['a', 'b']);
    expect(sessions.view(open().session).servers).toBeNull();
    expect(sessions.view(open({ servers: [] }).session).servers).toEqual([]);
  });

  test.each([['c'], ['note'], [''], ['__proto__'], ['constructor'], ['a\nb']])(
    '%j is refused: no server has it',
    (name) => {
      expect(codeOf(() => open({ servers: ['a', name] }))).toBe('REQUEST_INVALID');
    },
  );

  test('what was probably meant is said', () => {
    expect(() => open({ servers: ['note'] })).toThrow('There is no server "note"; did you mean "notes"?');
  });

  test('the list cannot be changed through the record or the draft', () => {
    const servers = ['a'];
    const { session } = open({ servers });
    servers.push('b');
    expect(session.servers).toEqual(['a']);
    expect(() => (session.servers as string[]).push('b')).toThrow(TypeError);
    expect(() => (session.permissions as string[]).push('admin')).toThrow(TypeError);
  });
});

describe('L1: a session can be narrowed and nothing else', () => {
  const restrict = (session: Session, change: Narrowing) => restrictSession(sessions, config, session.id, change);

  test('trust, ttl and servers, for good, and its token keeps working', () => {
    const { session, token } = open({ trustLevel: 'direct', ttlSeconds: 100 });
    const narrow = restrict(session, { trustLevel: 'sandboxed', ttlSeconds: 10, servers: ['a'] });
    expect(narrow).toMatchObject({ trustLevel: 'sandboxed', ttlSeconds: 10, servers: ['a'], id: session.id });
    expect(sessions.prove(token)).toBe(narrow);
    expect(sessions.get(session.id)).toBe(narrow);
    now += 10_000;
    expect(codeOf(() => sessions.prove(token))).toBe('SESSION_EXPIRED');
  });

  test.each([
    [{ trustLevel: 'direct' }, 'TRUST_REQUIRED'],
    [{ trustLevel: 'root' as 'direct' }, 'TRUST_REQUIRED'],
    [{ trustLevel: undefined as unknown as 'direct', ttlSeconds: 61 }, 'REQUEST_INVALID'],
    [{ ttlSeconds: 61 }, 'REQUEST_INVALID'],
    [{ ttlSeconds: 0 }, 'REQUEST_INVALID'],
    [{ ttlSeconds: -1 }, 'REQUEST_INVALID'],
    [{ ttlSeconds: 1.5 }, 'REQUEST_INVALID'],
    [{ ttlSeconds: Number.NaN }, 'REQUEST_INVALID'],
    [{ servers: ['a', 'notes'] }, 'REQUEST_INVALID'],
    [{ servers: ['notes'] }, 'REQUEST_INVALID'],
    [{ servers: ['nobody'] }, 'REQUEST_INVALID'],
    [{ servers: ['a'], ttlSeconds: 61 }, 'REQUEST_INVALID'],
    [{}, 'REQUEST_INVALID'],
  ] satisfies [Narrowing, string][])('%j is refused whole, not clamped', (change, code) => {
    const { session } = open({ trustLevel: 'sandboxed', ttlSeconds: 60, servers: ['a', 'b'] });
    expect(codeOf(() => restrict(session, change))).toBe(code);
    expect(sessions.get(session.id)).toBe(session);
  });

  test('an empty list means no server, and there is no way back', () => {
    const { session } = open();
    expect(restrict(session, { servers: [] }).servers).toEqual([]);
    expect(codeOf(() => restrict(session, { servers: ['a'] }))).toBe('REQUEST_INVALID');
    expect(restrict(session, { ttlSeconds: 5 }).servers).toEqual([]);
  });

  test('a server of its list that is gone meanwhile can still be kept or dropped', async () => {
    const { session } = open({ servers: ['a', 'b'] });
    ({ config } = await loadConfig({ text: 'version: 1\nservers: { b: { command: x } }', file: '/etc/ambit.yaml' }));
    expect(restrict(session, { servers: ['a'] }).servers).toEqual(['a']);
  });

  test('what changes nothing tells nobody', () => {
    const heard: string[] = [];
    sessions.onRestricted(({ id }) => heard.push(id));
    const { session } = open({ trustLevel: 'sandboxed', servers: ['a', 'b'] });
    expect(restrict(session, { trustLevel: 'sandboxed', servers: ['b', 'a'] })).toBe(session);
    expect(heard).toEqual([]);
    restrict(session, { servers: ['a'] });
    expect(heard).toEqual([session.id]);
  });

  test('one that is not there cannot be narrowed', () => {
    const { session } = open();
    sessions.end(session.id);
    expect(codeOf(() => restrict(session, { ttlSeconds: 1 }))).toBe('SESSION_NOT_FOUND');
  });
});

describe('further tokens', () => {
  test('prove the same session, and after its end tell the same', () => {
    const { session, token } = open();
    const further = sessions.furtherToken(session.id);
    expect(further).not.toBe(token);
    expect(sessions.prove(further).id).toBe(session.id);
    expect(sessions.prove(token).id).toBe(session.id);
    sessions.end(session.id);
    for (const each of [token, further]) expect(codeOf(() => sessions.prove(each))).toBe('SESSION_ENDED');
  });

  test('are bounded: the one unused for longest gives way, never the first', () => {
    const { session, token } = open();
    const further = Array.from({ length: mostTokens - 1 }, () => {
      now += 1;
      return sessions.furtherToken(session.id);
    });
    now += 1;
    sessions.prove(further[0] as string);
    const one = sessions.furtherToken(session.id);
    expect(codeOf(() => sessions.prove(further[1] as string))).toBe('UNAUTHENTICATED');
    for (const each of [token, further[0] as string, ...further.slice(2), one]) {
      expect(sessions.prove(each).id).toBe(session.id);
    }
    expect(sessions.get(session.id)?.tokenDigests).toHaveLength(mostTokens);
  });

  test('of another session do not help', () => {
    const one = open().session;
    const [kind, , secret] = sessions.furtherToken(open().session.id).split('_');
    expect(codeOf(() => sessions.prove(`${kind}_${one.id}_${secret}`))).toBe('UNAUTHENTICATED');
  });

  test('L9: no digest of one is ever shown', () => {
    const { session } = open();
    sessions.furtherToken(session.id);
    const text = JSON.stringify(sessions.list());
    for (const digest of sessions.get(session.id)?.tokenDigests ?? []) expect(text).not.toContain(digest);
  });
});
