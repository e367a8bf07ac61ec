import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type OpenSessions, openSessions, type Settings } from './open-sessions.ts';
import { type Catalog, type Subject, type SubjectName, startCatalog, type Who } from './start-catalog.ts';

// ADR 0018 of stac-mcp, session context management and propagation, part by part. Every promise is checked twice: with
// the example started by its own client, and with the same example behind a gateway.

const uuid = /^[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}$/;
const named = '550e8400-e29b-41d4-a716-446655440000';
const ada: Who = {
  era: 'handshake',
  sessionId: named,
  userId: 'user-12345',
  agentId: 'copilot',
  permissions: ['catalog:export'],
  ttlSeconds: 900,
  includeMeta: true,
  placed: true,
  kept: true,
};
const bob: Who = { era: 'modern', userId: 'user-67890', includeMeta: true };

describe.each(['library', 'gateway'] as const)('ADR 0018, %s', (name: SubjectName) => {
  const isLibrary = name === 'library';
  let folder: string;
  let subject: Subject;
  let first: Catalog;
  let second: Catalog;
  /** Sessions with the default settings, which several tests share. */
  let plain: OpenSessions;
  const opened: OpenSessions[] = [];

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'ambit-adr-'));
    [subject, plain] = await Promise.all([startCatalog(name, folder), open()]);
    [first, second] = await Promise.all([subject.connect(ada), subject.connect(bob)]);
  });
  afterAll(async () => {
    await Promise.all([subject.stop(), ...opened.map((each) => each.close())]);
    await rm(folder, { recursive: true, force: true });
  });

  async function open(settings: Settings = {}): Promise<OpenSessions> {
    const sessions = await openSessions(name, settings, await mkdtemp(join(folder, 'open-')));
    opened.push(sessions);
    return sessions;
  }

  async function showSession(catalog: Catalog) {
    const { value } = await catalog.call('show_session');
    return value as { sessionId: string; correlationId: string; userId: string; record?: object };
  }

  async function showInfo(catalog: Pick<Catalog, 'call'>) {
    const { session } = (await catalog.call('session_info')).structured;
    return session as Record<'id' | 'createdAt' | 'lastActiveAt' | 'expiresAt', string> & Record<string, unknown>;
  }

  describe('1 session context model', () => {
    test('L1: identifiers, identity, lifecycle and permissions, for the tool and for the agent', async () => {
      const seen = await showSession(first);
      const facts = {
        userId: 'user-12345',
        agentId: 'copilot',
        workspaceId: 'images',
        permissions: ['catalog:export'],
      };
      const workspacePath = join(folder, 'images');
      expect(seen).toMatchObject({ status: isLibrary ? 'own' : 'verified', ...facts, workspacePath });
      expect(seen.correlationId).toMatch(uuid);
      const info = await showInfo(first);
      expect(info).toMatchObject({ id: seen.sessionId, ttlSeconds: 900, ...facts });
      expect(Date.parse(info.lastActiveAt)).toBeGreaterThanOrEqual(Date.parse(info.createdAt));
      expect(Date.parse(info.expiresAt)).toBe(Date.parse(info.lastActiveAt) + 900_000);
      // The record belongs to whoever opened the session.
      if (isLibrary) expect(seen.record).toMatchObject({ createdAt: Date.parse(info.createdAt), ttlSeconds: 900 });
      else expect(seen.record).toBeUndefined();
    });

    test('L1: identity is optional; a session lives for an hour by default', async () => {
      expect(await showInfo(second)).toMatchObject({
        agentId: null,
        workspaceId: null,
        permissions: [],
        ttlSeconds: 3600,
      });
    });

    test('L1: between calls, only the time of the last use changes', async () => {
      const [before, after] = [await showInfo(first), await showInfo(first)];
      const { lastActiveAt, expiresAt } = after;
      expect(after).toEqual({ ...before, lastActiveAt, expiresAt });
      expect(Date.parse(lastActiveAt)).toBeGreaterThanOrEqual(Date.parse(before.lastActiveAt));
    });

    test('L1: a session can be narrowed, but not widened', async () => {
      const { id } = await plain.open({ userId: 'user-12345', permissions: ['read', 'write'] });
      await plain.restrict(id, { permissions: ['read'] });
      await expect(plain.restrict(id, { permissions: ['read', 'write'] })).rejects.toThrow();
      expect((await plain.list()).find((each) => each.id === id)).toMatchObject({ permissions: ['read'] });
    });

    if (isLibrary) {
      test('L1: a handler cannot change its session', async () => {
        const { call } = await plain.connect();
        expect((await call('tamper')).value).toMatchObject({ failed: 2, userId: 'local', permissions: [] });
      });
    }
  });

  describe('2 lifecycle', () => {
    test('L2: the client provides the session, otherwise one is made up', async () => {
      expect((await showSession(first)).sessionId).toBe(first.sessionId);
      if (isLibrary) expect(first.sessionId).toBe(named);
      expect((await showSession(second)).sessionId).toMatch(/^[0-9a-f]{32}$/);
    });

    test('L2: opened by the first tool call, or explicitly', async () => {
      const before = (await plain.list()).length;
      const { client, call } = await plain.connect();
      await client.listTools();
      // A gateway has opened it for the connection.
      expect(await plain.list()).toHaveLength(isLibrary ? before : before + 1);
      await call('session_info');
      expect(await plain.list()).toHaveLength(before + 1);
    });

    test('L4: a cancelled call stops, and the session goes on where it was', async () => {
      await first.call('search_items', { collection: 'sentinel-2' });
      const cancelled = new AbortController();
      const options = { signal: cancelled.signal, onprogress: () => cancelled.abort() };
      const stopped = subject.log.waitFor({ event: 'export stopped', session: first.sessionId?.slice(0, 8) });
      await expect(first.call('export_items', { pauseSeconds: 3600 }, undefined, options)).rejects.toThrow();
      await stopped;
      expect((await first.call('export_items')).value).toEqual({ exported: ['alps-2', 'alps-3', 'field-1'] });
    });
  });

  describe('3 propagation', () => {
    test('L3: concurrent calls never mix, and each has its own correlation id', async () => {
      const [one, two] = [await showSession(first), await showSession(second)];
      const both = Array.from({ length: 10 }, () => [first, second]).flat();
      const seen = await Promise.all(both.map(showSession));
      for (const [i, { sessionId, userId }] of seen.entries()) {
        const { sessionId: expected, userId: user } = i % 2 === 0 ? one : two;
        expect({ sessionId, userId }).toEqual({ sessionId: expected, userId: user });
      }
      expect(new Set(seen.map(({ correlationId }) => correlationId)).size).toBe(both.length);
    });

    test('L14: results name the session and the correlation id that the tool sees, if configured', async () => {
      for (const catalog of [first, second]) {
        const { value, meta } = await catalog.call('show_session');
        expect(meta['ambit/session']).toEqual({ sessionId: value.sessionId, correlationId: value.correlationId });
      }
      const { call } = await plain.connect();
      expect((await call('session_info')).meta).not.toHaveProperty('ambit/session');
    });
  });

  describe('4 integration with existing features', () => {
    test('L15, L10: a workflow over several calls, with the permission and the data of its user', async () => {
      const search = { collection: 'sentinel-2' };
      for (const catalog of [first, second]) {
        expect((await catalog.call('filter_items', { maxCloud: 20 })).text).toMatch(/call search_items first/);
      }
      expect((await first.call('search_items', search)).value.found).toEqual(['alps-1', 'alps-2', 'alps-3', 'field-1']);
      expect((await second.call('search_items', search)).value.found).toEqual(['alps-1', 'alps-2', 'alps-3']);
      expect((await first.call('filter_items', { maxCloud: 5 })).value.left).toEqual(['alps-1', 'field-1']);
      expect((await second.call('filter_items', { maxCloud: 20 })).value.left).toEqual(['alps-1', 'alps-3']);
      expect((await first.call('export_items')).value.exported).toEqual(['alps-1', 'field-1']);
      expect(await second.call('export_items')).toMatchObject({ code: 'PERMISSION_DENIED' });
    });

    test('L7: a repeated search is answered from the cache, for this session only', async () => {
      const search = async (catalog: Pick<Catalog, 'call'>) =>
        (await catalog.call('search_items', { collection: 'cached' })).value.lookup;
      // Two sessions in one process: pipes of the library, or clients of one era behind the gateway.
      const sessions = isLibrary ? plain : subject;
      const [one, two] = [await sessions.connect(), await sessions.connect()];
      const lookups = [await search(one), await search(two)];
      expect(lookups[0]).not.toBe(lookups[1]);
      expect([await search(one), await search(two)]).toEqual(lookups);
      // In the process of the example, too.
      const lookup = await search(first);
      expect(await search(first)).toBe(lookup);
    });

    test('L8: the log has session and correlation id of each call', async () => {
      const { sessionId, correlationId } = await showSession(second);
      const ids = { session: sessionId.slice(0, 8), correlation: correlationId.slice(0, 8) };
      await subject.log.find({ event: 'call', ...ids, method: 'tools/call', outcome: 'ok' });
      if (isLibrary) await second.call('show_session', {}, { 'ambit/context': {} });
      if (isLibrary) await subject.log.find({ event: 'call', outcome: 'CONTEXT_REFUSED' });
      await subject.log.find({ event: 'call', ...ids, name: 'show_session' });
    });

    test('L8: metrics count ended sessions and their calls', async () => {
      const before = await plain.countEnded();
      const { call } = await plain.connect();
      const { id } = await showInfo({ call });
      await call('session_list');
      await plain.end(id);
      expect(await plain.countEnded()).toEqual({ sessions: before.sessions + 1, calls: before.calls + 2 });
    });
  });

  describe('5 security and privacy', () => {
    test('L12: a caller cannot claim to be someone else', async () => {
      const claim = { sessionId: first.sessionId, userId: 'user-12345', permissions: ['catalog:export'] };
      const answer = await second.call('show_session', {}, { 'ambit/context': claim });
      // A gateway replaces the claim; without one, nobody can have signed it.
      if (isLibrary) expect(answer).toMatchObject({ code: 'CONTEXT_REFUSED' });
      else expect(answer.value).toMatchObject({ userId: 'user-67890', permissions: [] });
    });

    test('L12: knowing an id gives no access to a session', async () => {
      const session = first.sessionId;
      expect(await second.call('session_info', { session })).toMatchObject({ code: 'SESSION_NOT_FOUND' });
      expect(await second.call('session_end', { session })).toMatchObject({ code: 'SESSION_NOT_FOUND' });
      expect((await second.call('session_list')).text).not.toContain(session);
    });

    test('L9: metadata is not logged with personal data in it', async () => {
      const { id } = await plain.open({ metadata: { contact: 'ada@example.org', apiKey: 'k-0123456789abcdef' } });
      await plain.log.find({ event: 'session opened', session: id.slice(0, 8) });
      expect(plain.log.text()).not.toMatch(/ada@example|0123456789abcdef/);
    });
  });

  describe('6 configuration', () => {
    if (isLibrary) {
      test.each([
        ['STAC_MCP_SESSION_ID', '../elsewhere'],
        ['STAC_MCP_SESSION_TTL_SECONDS', 'soon'],
        ['STAC_MCP_SESSION_INCLUDE_META', 'perhaps'],
        ['STAC_MCP_USER_ID', 'Ada Lovelace'],
      ])('L2: an invalid %s is named to the agent, and nothing runs', async (variable, value) => {
        const { call } = await (await open({ env: { [variable]: value } })).connect();
        const { code, text } = await call('search_items');
        expect({ code, names: text.includes(variable) }).toEqual({ code: 'CONFIG_INVALID', names: true });
      });
    } else {
      test('L2: a gateway with invalid settings does not start', async () => {
        await expect(open({ sessions: { ttlSeconds: -1 } })).rejects.toMatchObject({ code: 'CONFIG_INVALID' });
      });
    }
  });

  describe('7 resource bounds', () => {
    test('L5: beyond the maximum, the session that was idle the longest makes room', async () => {
      const sessions = await open({ sessions: { maxSessions: 2 } });
      for (const userId of ['user-a', 'user-b', 'user-c']) await sessions.open({ userId });
      expect((await sessions.list()).map(({ userId }) => userId).sort()).toEqual(['user-b', 'user-c']);
      for (let i = 0; i < 3; i++) await sessions.open({ userId: 'user-d' });
      expect((await sessions.list()).map(({ userId }) => userId)).toEqual(['user-d', 'user-d']);
    });

    test('L5: metadata has at most 10 KB', async () => {
      const metadata = { note: 'x'.repeat(10_240) };
      await expect(plain.open({ metadata })).rejects.toMatchObject({ code: 'METADATA_TOO_LARGE' });
    });

    test('L11: calls per session are limited, and the refusal says when to try again', async () => {
      const { call } = await (await open({ quotas: { session: { callsPerMinute: 2 } } })).connect();
      await call('session_info');
      await call('session_info');
      const refused = await call('session_info');
      expect(refused.code).toBe('QUOTA_EXCEEDED');
      expect(refused.meta).toMatchObject({
        'ambit/error': { rule: 'quotas.session.callsPerMinute', retryAfterMs: expect.any(Number) },
      });
    });
  });

  describe('9 negative tests', () => {
    test('L4: an expired session is removed, and its next call refused', async () => {
      const sessions = await open({ timed: true });
      const { call } = await sessions.connect();
      await call('session_info');
      expect(await sessions.expire()).toBe(1);
      expect(await sessions.list()).toEqual([]);
      expect(await call('session_info')).toMatchObject({ code: 'SESSION_EXPIRED' });
      if (!isLibrary) return;
      const kept = await open({ timed: true, env: { STAC_MCP_SESSION_ID: named } });
      await (await kept.connect()).call('session_info');
      await kept.expire();
      expect((await (await kept.connect()).call('session_info')).text).toContain('another session id');
    });
  });

  describe('2 lifecycle, to its end', () => {
    test('L6, L15, L16: after a restart of the process, the session goes on', async () => {
      await first.call('search_items', { collection: 'sentinel-2' });
      const { sessionId } = await showSession(first);
      first = await subject.restart(first, ada);
      expect(await showSession(first)).toMatchObject({ sessionId, userId: 'user-12345' });
      expect((await first.call('filter_items', { maxCloud: 20 })).value.left).toEqual(['alps-1', 'alps-3', 'field-1']);
    });

    if (isLibrary) {
      test('L12, L16: another process with the same id and folder, but of another user, is refused', async () => {
        const env = {
          STAC_MCP_SESSION_ID: named,
          STAC_MCP_SESSION_STORE_DIR: join(folder, 'kept'),
          STAC_MCP_USER_ID: 'user-67890',
        };
        const { call } = await (await open({ env })).connect();
        expect(await call('session_info')).toMatchObject({ code: 'UNAUTHENTICATED' });
        expect((await call('session_info')).text).toContain('belongs to another user');
      });
    }

    test('L4, L13: ended by the agent, with its running call and all later ones', async () => {
      const { sessionId } = await showSession(first);
      let running: Promise<unknown> | undefined;
      await new Promise<void>((started) => {
        const options = { onprogress: () => started() };
        running = first.call('export_items', { pauseSeconds: 3600 }, undefined, options);
      });
      const session = sessionId.slice(0, 8);
      const stopped = subject.log.waitFor({ event: 'export stopped', session });
      expect((await first.call('session_end')).structured).toEqual({ id: sessionId, ended: true });
      expect(await running).toMatchObject({ code: 'SESSION_ENDED' });
      expect(await first.call('show_session')).toMatchObject({ code: 'SESSION_ENDED' });
      await subject.log.find({ event: 'session ended', session, reason: 'ended' });
      // The signal of the call has told the handler.
      await stopped;
    });

    test('L9: nothing that was logged until here has a full session id, a user or a token in it', async () => {
      const logged = subject.log.text();
      const ids = [first, second].map(({ sessionId }) => sessionId).filter((id) => id !== undefined);
      for (const id of ids) expect(logged).toContain(`"${id.slice(0, 8)}"`);
      for (const secret of [...ids, first.token, 'user-12345', 'user-67890']) {
        if (secret !== undefined) expect(logged).not.toContain(secret);
      }
    });
  });
});
