import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Client } from '@modelcontextprotocol/client';
import { InMemoryTransport, McpServer, Server } from '@modelcontextprotocol/server';
import { afterEach, describe, expect, test } from 'vitest';
import { currentSession } from '../../../src/public/sdk/index.ts';
import { createServerSessions, type ServerSessionsOptions, withSessions } from '../../../src/public/server/index.ts';
import { openMemoryStore } from '../../../src/stores/index.ts';
import { createGate } from './build-server.ts';
import { connectPipe } from './connect-client.ts';
import { openClockedStore } from './open-clocked-store.ts';

const folders: string[] = [];
const open: { close(): Promise<void> }[] = [];
afterEach(async () => {
  for (const each of open.splice(0)) await each.close();
  for (const folder of folders.splice(0)) await rm(folder, { recursive: true, force: true });
});

async function folder(): Promise<string> {
  const made = await mkdtemp(join(tmpdir(), 'ambit-server-'));
  folders.push(made);
  return made;
}

function sessionsWith(options: ServerSessionsOptions = {}, env: Record<string, string> = {}) {
  const sessions = createServerSessions({ ...options, context: { ...options.context, env } });
  open.push(sessions);
  return sessions;
}

describe.each(['v1', 'v2'] as const)('SDK %s, alone on stdio', (sdk) => {
  test('L2, L3: a session is opened with the first call, and every call of the process is in it', async () => {
    const sessions = sessionsWith();
    const caller = await connectPipe(sdk, sessions);
    await caller.client.listTools();
    expect(await sessions.list()).toEqual([]);
    const first = (await caller.call('whoami')).value as Record<string, unknown>;
    expect(first).toMatchObject({
      status: 'own',
      userId: 'local',
      trustLevel: 'sandboxed',
      permissions: [],
      same: true,
    });
    expect(first.sessionId).toMatch(/^[0-9a-f]{32}$/);
    const second = (await caller.call('whoami', { pause: 3 })).value as Record<string, unknown>;
    expect(second.sessionId).toBe(first.sessionId);
    expect(second.correlationId).not.toBe(first.correlationId);
    expect(await sessions.list()).toHaveLength(1);
    await caller.close();
  });

  test('reading the context again finds the same session', async () => {
    const caller = await connectPipe(sdk, sessionsWith());
    expect((await caller.call('wrapped')).value).toEqual({ status: 'own', same: true, kept: 1 });
    await caller.close();
  });

  test('L15: state is kept from call to call, and written by comparison', async () => {
    const caller = await connectPipe(sdk, sessionsWith());
    const state = (method: string, ...given: unknown[]) => caller.call('state', { method, given });
    expect((await state('get', 'a')).value).toBeNull();
    expect((await state('set', 'a', { n: 1 }, { expectedVersion: 0 })).value).toBe(1);
    expect((await state('get', 'a')).value).toEqual({ value: { n: 1 }, version: 1, expiresAt: null });
    const late = await state('set', 'a', 2, { expectedVersion: 7 });
    expect(late.text).toMatch(/^STATE_CONFLICT: the entry "a" was changed in the meantime; its version is now 1\./);
    expect(late.error).toMatchObject({ code: 'STATE_CONFLICT' });
    expect((await state('set', 'b', 'x'.repeat(70_000))).error).toMatchObject({ code: 'STATE_FULL' });
    expect((await state('set', 'k'.repeat(300), 1)).error).toMatchObject({ code: 'REQUEST_INVALID' });
    expect((await state('list', {})).value).toEqual({ keys: ['a'], next: null });
    expect((await state('delete', 'a', { expectedVersion: 9 })).error).toMatchObject({ code: 'STATE_CONFLICT' });
    expect((await state('delete', 'a')).value).toBe(true);
    expect((await state('delete', 'a')).value).toBe(false);
    await caller.close();
  });

  test('L3, L15: concurrent calls lose no state of each other', async () => {
    const caller = await connectPipe(sdk, sessionsWith());
    const items = Array.from({ length: 20 }, (_, i) => `item-${i}`);
    await Promise.all(items.map((item, i) => caller.call('add', { item, pause: (i * 7) % 5 })));
    expect((await caller.call('items')).value).toEqual(expect.arrayContaining(items));
    await caller.close();
  });
});

test('L2: the environment names the caller and the session', async () => {
  const env = { AMBIT_SESSION_ID: 'from-the-environment', AMBIT_USER_ID: 'ada', AMBIT_AGENT_ID: 'coder' };
  const sessions = sessionsWith({}, env);
  const caller = await connectPipe('v2', sessions);
  expect((await caller.call('whoami')).value).toMatchObject({
    status: 'own',
    sessionId: 'from-the-environment',
    userId: 'ada',
    agentId: 'coder',
    trustLevel: 'sandboxed',
  });
  await sessions.end('from-the-environment');
  for (let i = 0; i < 2; i++) expect((await caller.call('whoami')).error).toMatchObject({ code: 'SESSION_ENDED' });
  await caller.close();
});

test('L2: a token of the environment proves a session in a store that is shared', async () => {
  const storeDir = await folder();
  const opener = sessionsWith({ storeDir });
  const { id, token } = await opener.open({ userId: 'ada', permissions: ['notes:write'], trustLevel: 'direct' });
  const joined = await connectPipe(
    'v2',
    sessionsWith({}, { AMBIT_SESSION_STORE_DIR: storeDir, AMBIT_SESSION_TOKEN: token }),
  );
  expect((await joined.call('whoami')).value).toMatchObject({ sessionId: id, userId: 'ada', trustLevel: 'direct' });
  expect((await joined.call('delete_note')).value).toBe('deleted');

  const forged = `${token.slice(0, -1)}${token.endsWith('0') ? '1' : '0'}`;
  for (const env of [
    { AMBIT_SESSION_TOKEN: forged },
    { AMBIT_SESSION_TOKEN: token, AMBIT_SESSION_ID: 'another-session' },
    { AMBIT_SESSION_TOKEN: token, AMBIT_USER_ID: 'eve' },
    { AMBIT_SESSION_ID: id, AMBIT_USER_ID: 'eve' },
  ]) {
    const refused = await connectPipe('v2', sessionsWith({ storeDir }, env));
    expect((await refused.call('whoami')).error).toMatchObject({ code: 'UNAUTHENTICATED' });
    await refused.close();
  }
  await joined.close();
});

test('L6, L15: with a folder, a named session and its state survive the process', async () => {
  const env = { AMBIT_SESSION_ID: 'kept-for-long', AMBIT_SESSION_STORE_DIR: await folder() };
  const first = sessionsWith({}, env);
  const before = await connectPipe('v2', first);
  await before.call('add', { item: 'one' });
  await before.close();
  await first.close();
  const after = await connectPipe('v2', sessionsWith({}, env));
  expect((await after.call('items')).value).toEqual(['one']);
  await after.close();
});

test('a session that was opened for the process ends when it closes; calls are refused from then on', async () => {
  const storeDir = await folder();
  const sessions = sessionsWith({ storeDir });
  const ended: string[] = [];
  sessions.onEnded(({ id }, reason) => ended.push(`${id} ${reason}`));
  const caller = await connectPipe('v2', sessions);
  const { sessionId } = (await caller.call('whoami')).value as { sessionId: string };
  await sessions.close();
  expect(ended).toEqual([`${sessionId} closed`]);
  expect((await caller.call('whoami')).error).toMatchObject({ code: 'SESSION_ENDED' });
  expect(await sessionsWith({ storeDir }).list()).toEqual([]);
  await caller.close();
});

test('L3: several pipes of one process are several sessions, unless the environment names one', async () => {
  const sessions = sessionsWith();
  const [one, two] = [await connectPipe('v2', sessions), await connectPipe('v2', sessions)];
  await one.call('add', { item: 'of one' });
  expect((await two.call('items')).value).toEqual([]);
  expect(await sessions.list()).toHaveLength(2);
  const named = sessionsWith({}, { AMBIT_SESSION_ID: 'named-by-someone' });
  const [three, four] = [await connectPipe('v2', named), await connectPipe('v2', named)];
  await Promise.all([three.call('add', { item: 'of three' }), four.call('add', { item: 'of four' })]);
  expect((await three.call('items')).value).toHaveLength(2);
  for (const each of [one, two, three, four]) await each.close();
});

test('the low-level server has sessions too', async () => {
  const sessions = sessionsWith();
  const server = withSessions(new Server({ name: 'low', version: '1' }, { capabilities: { tools: {} } }), sessions);
  server.setRequestHandler('tools/call', async ({ params }) => ({
    content: [
      { type: 'text', text: `${params.name} ${currentSession().status} ${await currentSession().state.set('k', 1)}` },
    ],
  }));
  const [ours, theirs] = InMemoryTransport.createLinkedPair();
  const client = new Client({ name: 'low', version: '1' });
  await Promise.all([server.connect(ours), client.connect(theirs)]);
  const { content } = await client.callTool({ name: 'anything', arguments: {} });
  expect(content).toEqual([{ type: 'text', text: 'anything own 1' }]);
  await client.close();
});

test('outside of withSessions(), state is refused as unavailable', async () => {
  const refused = currentSession().state.get('k');
  await expect(refused).rejects.toMatchObject({ code: 'STATE_UNAVAILABLE' });
  expect(JSON.stringify(currentSession())).not.toContain('state"');
});

test('L4: each call refreshes the session; an idle one is refused once, and the next call opens another', async () => {
  const { store, now, pass } = openClockedStore();
  const sessions = sessionsWith({ store, ttlSeconds: 60, context: { now } });
  const caller = await connectPipe('v2', sessions);
  await caller.call('add', { item: 'old' });
  for (let i = 0; i < 3; i++) {
    pass(50);
    expect((await caller.call('items')).value).toEqual(['old']);
  }
  pass(61);
  const refused = await caller.call('items');
  expect(refused.error).toMatchObject({ code: 'SESSION_EXPIRED' });
  expect(refused.text).toMatch(/Call again to start a new session/);
  expect((await caller.call('items')).value).toEqual([]);
  await caller.close();
  await store.close();
});

test('L4, L15: when a session expires under many concurrent calls, the state they write is kept', async () => {
  const { store, now, pass } = openClockedStore();
  const caller = await connectPipe('v2', sessionsWith({ store, ttlSeconds: 60, context: { now } }));
  await caller.call('add', { item: 'old' });
  pass(120);
  const items = Array.from({ length: 24 }, (_, i) => `item-${i}`);
  const answers = await Promise.all(
    items.map(async (item, i) => {
      for (let turn = 0; turn < i; turn++) await Promise.resolve();
      const answer = await caller.call('add', { item });
      return answer.isError ? caller.call('add', { item }) : answer;
    }),
  );
  const kept = items.filter((_, i) => answers[i]?.isError === false);
  expect(kept.length).toBeGreaterThan(0);
  expect(((await caller.call('items')).value as string[]).sort()).toEqual(kept.sort());
  await caller.close();
  await store.close();
});

test('L4: an ended session stays ended, and its running call is answered at once', async () => {
  const sessions = sessionsWith();
  const caller = await connectPipe('v2', sessions);
  const { sessionId } = (await caller.call('whoami')).value as { sessionId: string };
  const held = createGate('until-ended');
  const waiting = caller.call('wait', { at: 'until-ended' });
  await held.arrived;
  expect(await sessions.end(sessionId)).toBe(true);
  expect((await waiting).error).toMatchObject({ code: 'SESSION_ENDED' });
  held.open();
  for (let i = 0; i < 2; i++) expect((await caller.call('whoami')).error).toMatchObject({ code: 'SESSION_ENDED' });
  expect(await sessions.end(sessionId)).toBe(false);
  await caller.close();
});

test('L4, L13: listeners hear of each opened and ended session, also when it expires', async () => {
  const { store, now, pass } = openClockedStore();
  const sessions = sessionsWith({ store, ttlSeconds: 60, context: { now } });
  const heard: string[] = [];
  const stop = sessions.onOpened(({ userId }) => heard.push(`opened for ${userId}`));
  sessions.onEnded((_, reason) => heard.push(reason));
  const caller = await connectPipe('v2', sessions);
  await caller.call('whoami');
  pass(120);
  expect(await store.sweep()).toBe(1);
  expect(heard).toEqual(['opened for local', 'expired']);
  stop();
  await caller.call('whoami');
  expect((await caller.call('whoami')).isError).toBe(false);
  expect(heard).toHaveLength(2);
  await caller.close();
  await sessions.close();
  expect(heard).toEqual(['opened for local', 'expired', 'closed']);
  await store.close();
});

test('L11: a refusal by quota tells a model what to do and when to retry', async () => {
  const quotas = { session: { callsPerMinute: 2 }, user: { concurrentCalls: 1 } };
  const caller = await connectPipe('v2', sessionsWith({ quotas }));
  const held = createGate('one-at-a-time');
  const first = caller.call('wait', { at: 'one-at-a-time' });
  await held.arrived;
  expect((await caller.call('whoami')).error).toMatchObject({ rule: 'quotas.user.concurrentCalls' });
  held.open();
  expect((await first).isError).toBe(false);
  expect((await caller.call('whoami')).isError).toBe(false);
  const refused = await caller.call('whoami');
  expect(refused.text).toMatch(
    /^QUOTA_EXCEEDED: The session has reached its limit of 2 calls per minute\. Try again in \d+ s\./,
  );
  expect(refused.error).toMatchObject({ rule: 'quotas.session.callsPerMinute', retryAfterMs: expect.any(Number) });
  await caller.close();
});

test('L11: bytes of arguments and answers count', async () => {
  const caller = await connectPipe('v2', sessionsWith({ quotas: { session: { totalBytes: 300 } } }));
  expect((await caller.call('add', { item: 'x'.repeat(200) })).isError).toBe(false);
  expect((await caller.call('items')).error).toMatchObject({ rule: 'quotas.session.totalBytes' });
  await caller.close();
});

test('L14: results name the session if configured, also over what the tool says itself', async () => {
  const asked = await connectPipe('v2', sessionsWith({}, { AMBIT_SESSION_INCLUDE_META: 'true' }));
  const { value, session } = await asked.call('whoami');
  const { sessionId, correlationId } = value as Record<string, string>;
  expect(session).toEqual({ sessionId, correlationId });
  await asked.close();
  const silent = await connectPipe('v2', sessionsWith());
  expect((await silent.call('whoami')).session).toBeUndefined();
  await silent.close();
});

test('L10: a tool is refused unless the session has the permission it requires', async () => {
  const plain = await connectPipe('v2', sessionsWith());
  expect((await plain.call('delete_note')).error).toMatchObject({ code: 'TRUST_REQUIRED' });
  await plain.close();
  const trusted = await connectPipe('v2', sessionsWith({ local: { trustLevel: 'direct' } }));
  expect((await trusted.call('delete_note')).error).toMatchObject({ code: 'PERMISSION_DENIED' });
  await trusted.close();
  const local = { trustLevel: 'direct', permissions: ['notes:write'] } as const;
  const sessions = sessionsWith({ local });
  const allowed = await connectPipe('v2', sessions);
  expect((await allowed.call('delete_note')).value).toBe('deleted');
  const { sessionId } = (await allowed.call('whoami')).value as { sessionId: string };
  const restricted: string[] = [];
  sessions.onRestricted(({ id, permissions }) => restricted.push(`${id} ${permissions.length}`));
  await sessions.restrict(sessionId, { permissions: [] });
  expect((await allowed.call('delete_note')).error).toMatchObject({ code: 'PERMISSION_DENIED' });
  expect(restricted).toEqual([`${sessionId} 0`]);
  await allowed.close();
});

test('requests other than tool calls run in the session too, and are refused with a JSON-RPC code', async () => {
  const sessions = sessionsWith();
  const caller = await connectPipe('v2', sessions);
  const { contents } = await caller.client.readResource({ uri: 'who://me' });
  const { sessionId } = JSON.parse((contents[0] as { text: string }).text) as { sessionId: string };
  expect((await caller.call('whoami')).value).toMatchObject({ sessionId });
  await sessions.end(sessionId);
  await expect(caller.client.readResource({ uri: 'who://me' })).rejects.toMatchObject({
    code: 1004,
    message: expect.stringMatching(/SESSION_ENDED/),
  });
  await caller.close();
});

test('a store that cannot be opened refuses calls, and is asked again with the next', async () => {
  let tries = 0;
  const store = openMemoryStore();
  const flaky = {
    // biome-ignore lint/suspicious/noThenProperty: a store that is still being opened
    then: (done: (opened: typeof store) => void, failed: (error: Error) => void) =>
      ++tries === 1 ? failed(new Error('away')) : done(store),
  } as unknown as Promise<typeof store>;
  const caller = await connectPipe('v2', sessionsWith({ store: flaky }));
  expect((await caller.call('whoami')).error).toMatchObject({ code: 'STORE_UNAVAILABLE' });
  expect((await caller.call('whoami')).isError).toBe(false);
  await store.close();
  expect((await caller.call('whoami')).error).toMatchObject({ code: 'STORE_UNAVAILABLE' });
  await caller.close();
});

test('withSessions() after a registration is refused', () => {
  const server = new McpServer({ name: 'late', version: '1' });
  server.registerTool('first', {}, async () => ({ content: [] }));
  expect(() => withSessions(server, sessionsWith())).toThrow(/withSessions\(\) comes too late/);
});
