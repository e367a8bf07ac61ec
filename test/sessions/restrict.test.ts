import { beforeEach, describe, expect, test } from 'vitest';
import { loadConfig } from '../../src/config/load/load.ts';
import type { Config } from '../../src/config/schema/schema.ts';
import { parseToken } from '../../src/identity/token.ts';
import { openSession } from '../../src/sessions/open-session.ts';
import { restrictSession } from '../../src/sessions/restrict.ts';
import { type Restriction, type Session, type SessionDraft, sessionViewOf } from '../../src/sessions/session.ts';
import { createSessions, maxTokens, type Sessions } from '../../src/sessions/sessions.ts';
import { openMemoryStore } from '../../src/stores/memory/memory-store.ts';
import type { SessionRecord } from '../../src/stores/record.ts';
import { codeOf } from './code-of.ts';

let now = 1_000_000;
let config: Config;
let sessions: Sessions;

beforeEach(async () => {
  now = 1_000_000;
  const text = 'version: 1\nservers: { a: { command: x }, b: { command: x }, notes: { command: x } }';
  ({ config } = await loadConfig({ text, file: '/etc/ambit/ambit.yaml' }));
  const clock = () => now;
  sessions = createSessions({ store: openMemoryStore({ now: clock }), bounds: config.sessions, now: clock });
});

const open = (draft: SessionDraft = {}) => openSession(sessions, config, draft);

describe('P14: a session limited to named servers', () => {
  test('keeps its list, each name once, and shows it', async () => {
    const { session } = await open({ servers: ['a', 'b', 'a'] });
    expect(session.servers).toEqual(['a', 'b']);
    expect(sessionViewOf((await sessions.record(session.id)) as SessionRecord).servers).toEqual(['a', 'b']);
    expect(sessionViewOf((await open()).record).servers).toBeNull();
    expect(sessionViewOf((await open({ servers: [] })).record).servers).toEqual([]);
  });

  test.each([['c'], ['note'], [''], ['__proto__'], ['constructor'], ['a\nb']])(
    '%j is refused: no server has it',
    async (name) => {
      expect(await codeOf(() => open({ servers: ['a', name] }))).toBe('REQUEST_INVALID');
    },
  );

  test('a similar name is suggested', async () => {
    await expect(open({ servers: ['note'] })).rejects.toThrow('There is no server "note"; did you mean "notes"?');
  });

  test('the list cannot be changed through the record or the draft', async () => {
    const servers = ['a'];
    const { session } = await open({ servers });
    servers.push('b');
    expect(session.servers).toEqual(['a']);
    expect(() => (session.servers as string[]).push('b')).toThrow(TypeError);
    expect(() => (session.permissions as string[]).push('admin')).toThrow(TypeError);
  });
});

describe('L1: a session can only be restricted', () => {
  const restrict = (session: Session, change: Restriction) => restrictSession(sessions, config, session.id, change);

  test('trust, ttl and servers, for good, and its token keeps working', async () => {
    const { session, token } = await open({ trustLevel: 'direct', ttlSeconds: 100 });
    // A connection parses its token once. The second check of it takes another way than the first.
    const presented = parseToken(token);
    for (let check = 0; check < 2; check++) expect(await sessions.verifyToken(presented)).toBe(session);
    const narrow = await restrict(session, { trustLevel: 'sandboxed', ttlSeconds: 10, servers: ['a'] });
    expect(narrow).toMatchObject({ trustLevel: 'sandboxed', ttlSeconds: 10, servers: ['a'], id: session.id });
    expect(await sessions.verifyToken(token)).toBe(narrow);
    expect(await sessions.verifyToken(presented)).toBe(narrow);
    expect(sessions.get(session.id)).toBe(narrow);
    now += 10_000;
    expect(await codeOf(() => sessions.acquire(narrow, true))).toBe('SESSION_EXPIRED');
    for (const each of [token, presented])
      expect(await codeOf(() => sessions.verifyToken(each))).toBe('SESSION_EXPIRED');
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
  ] satisfies [Restriction, string][])('%j is refused whole, not clamped', async (change, code) => {
    const { session } = await open({ trustLevel: 'sandboxed', ttlSeconds: 60, servers: ['a', 'b'] });
    expect(await codeOf(() => restrict(session, change))).toBe(code);
    expect(sessions.get(session.id)).toBe(session);
  });

  test('an empty list means no server, and there is no way back', async () => {
    const { session } = await open();
    expect((await restrict(session, { servers: [] })).servers).toEqual([]);
    expect(await codeOf(() => restrict(session, { servers: ['a'] }))).toBe('REQUEST_INVALID');
    expect((await restrict(session, { ttlSeconds: 5 })).servers).toEqual([]);
  });

  test('a server of its list that is gone meanwhile can still be kept or dropped', async () => {
    const { session } = await open({ servers: ['a', 'b'] });
    ({ config } = await loadConfig({ text: 'version: 1\nservers: { b: { command: x } }', file: '/etc/ambit.yaml' }));
    expect((await restrict(session, { servers: ['a'] })).servers).toEqual(['a']);
  });

  test('a change without effect notifies no listener', async () => {
    const heard: string[] = [];
    sessions.onRestricted(({ id }) => heard.push(id));
    const { session } = await open({ trustLevel: 'sandboxed', servers: ['a', 'b'] });
    expect(await restrict(session, { trustLevel: 'sandboxed', servers: ['b', 'a'] })).toBe(session);
    expect(heard).toEqual([]);
    await restrict(session, { servers: ['a'] });
    expect(heard).toEqual([session.id]);
  });

  test('an unknown session cannot be restricted', async () => {
    const { session } = await open();
    await sessions.end(session.id);
    expect(await codeOf(() => restrict(session, { ttlSeconds: 1 }))).toBe('SESSION_NOT_FOUND');
  });
});

describe('further tokens', () => {
  test('verify the same session, and give the same reason after its end', async () => {
    const { session, token } = await open();
    const further = await sessions.issueToken(session.id);
    expect(further).not.toBe(token);
    expect((await sessions.verifyToken(further)).id).toBe(session.id);
    expect((await sessions.verifyToken(token)).id).toBe(session.id);
    await sessions.end(session.id);
    for (const each of [token, further]) expect(await codeOf(() => sessions.verifyToken(each))).toBe('SESSION_ENDED');
  });

  test('are limited: the one unused for longest is replaced, never the first', async () => {
    const { session, token } = await open();
    const further: string[] = [];
    for (let i = 0; i < maxTokens - 1; i++) {
      now += 1;
      further.push(await sessions.issueToken(session.id));
    }
    now += 1;
    await sessions.verifyToken(further[0] as string);
    const one = await sessions.issueToken(session.id);
    expect(await codeOf(() => sessions.verifyToken(further[1] as string))).toBe('UNAUTHENTICATED');
    for (const each of [token, further[0] as string, ...further.slice(2), one]) {
      expect((await sessions.verifyToken(each)).id).toBe(session.id);
    }
    expect(sessions.get(session.id)?.tokenDigests).toHaveLength(maxTokens);
  });

  test('of another session are refused', async () => {
    const one = (await open()).session;
    const [kind, , secret] = (await sessions.issueToken((await open()).session.id)).split('_');
    expect(await codeOf(() => sessions.verifyToken(`${kind}_${one.id}_${secret}`))).toBe('UNAUTHENTICATED');
  });

  test('L9: no digest of a token is shown', async () => {
    const { session } = await open();
    await sessions.issueToken(session.id);
    const text = JSON.stringify((await sessions.list()).sessions.map(sessionViewOf));
    for (const digest of sessions.get(session.id)?.tokenDigests ?? []) expect(text).not.toContain(digest);
  });
});
