import { McpServer as McpServerV1 } from '@modelcontextprotocol/sdk/server/mcp.js';
import { McpServer } from '@modelcontextprotocol/server';
import { afterEach, expect, test } from 'vitest';
import { z } from 'zod';
import { currentSession } from '../../../src/public/sdk/index.ts';
import {
  type CacheOptions,
  cacheResult,
  createServerSessions,
  type ServerSessionsOptions,
  withSessions,
} from '../../../src/public/server/index.ts';
import type { buildServer } from './build-server.ts';
import { connectHttp, connectPipe, serveStateless } from './connect-client.ts';
import { openClockedStore } from './open-clocked-store.ts';

const open: { close(): Promise<void> }[] = [];
afterEach(async () => {
  for (const each of open.splice(0).reverse()) await each.close();
});

function sessionsWith(options: ServerSessionsOptions = {}) {
  const log = { info() {}, warn() {} };
  const sessions = createServerSessions({ log, ...options, context: { env: {}, ...options.context } });
  open.push(sessions);
  return sessions;
}

/** What the handlers of a test have done. */
let runs: string[] = [];
let onWaiting: () => void = () => {};
afterEach(() => {
  runs = [];
});

const build = ((sdk, given) => {
  const Server = (sdk === 'v1' ? McpServerV1 : McpServer) as typeof McpServer;
  const server = withSessions(new Server({ name: 'services', version: '1' }), given);
  const answer = (value: unknown) => ({ content: [{ type: 'text' as const, text: JSON.stringify(value) ?? 'null' }] });
  server.registerTool('record', {}, async () => answer(currentSession().record));
  server.registerTool('alter', {}, async () => {
    const { metadata } = currentSession().record as unknown as { metadata: Record<string, unknown> };
    (metadata['tags'] as string[]).push('altered');
    return answer(metadata);
  });
  server.registerTool('wait', {}, async () => {
    const { signal } = currentSession();
    onWaiting();
    await new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve()));
    runs.push(`aborted: ${(signal.reason as Error).message}`);
    return answer('late');
  });
  const inputSchema = z.object({ n: z.any(), per: z.string().optional(), mode: z.string().optional() });
  server.registerTool('cached', { inputSchema }, async ({ n, per, mode }) => {
    const options = { ttlSeconds: 60, ...(per && { per }) } as CacheOptions;
    const value = await cacheResult(() => {
      runs.push(`ran for ${currentSession().userId}`);
      if (mode === 'fail') throw new Error('failed');
      return { n, list: [runs.length] };
    }, options);
    value.list.push(99);
    return answer(value);
  });
  return server;
}) as typeof buildServer;

async function connectAs(sessions: ReturnType<typeof sessionsWith>, key: string) {
  const fetch = serveStateless(sessions, build);
  const caller = await connectHttp(fetch, 'modern', undefined, { authorization: `Bearer ${key}` });
  open.push(caller);
  return caller;
}

test('L1: a handler gets the record of its session, and cannot change it for others', async () => {
  const { store, now, pass } = openClockedStore();
  const sessions = sessionsWith({
    store,
    ttlSeconds: 60,
    principal: () => ({ sessionToken: token }),
    context: { now },
  });
  const { token, createdAt } = await sessions.open({ userId: 'ada', name: 'task#49', metadata: { tags: ['one'] } });
  const caller = await connectAs(sessions, 'any');
  pass(10);
  const created = Date.parse(createdAt);
  expect((await caller.call('record')).value).toEqual({
    name: 'task#49',
    createdAt: created,
    lastActiveAt: created + 10_000,
    ttlSeconds: 60,
    expiresAt: created + 70_000,
    endsAt: created + 86_400_000,
    metadata: { tags: ['one'] },
  });
  expect((await caller.call('alter')).value).toEqual({ tags: ['one', 'altered'] });
  expect((await caller.call('record')).value).toMatchObject({ metadata: { tags: ['one'] } });
  await sessions.close();
  await store.close();
});

test.each(['v1', 'v2'] as const)('L4: the signal of a call is aborted when its session ends (SDK %s)', async (sdk) => {
  const sessions = sessionsWith();
  const caller = await connectPipe(sdk, sessions, undefined, build);
  open.push(caller);
  const waiting = new Promise<void>((resolve) => {
    onWaiting = resolve;
  });
  const call = caller.call('wait');
  await waiting;
  const [session] = await sessions.list();
  await sessions.end(session?.id ?? '');
  expect((await call).error).toMatchObject({ code: 'SESSION_ENDED' });
  expect(runs).toEqual(['aborted: The session has been ended.']);
});

test('L4: the signal of a call is aborted when the client cancels it', async () => {
  const caller = await connectPipe('v2', sessionsWith(), undefined, build);
  open.push(caller);
  const waiting = new Promise<void>((resolve) => {
    onWaiting = resolve;
  });
  const controller = new AbortController();
  const call = caller.client.callTool({ name: 'wait', arguments: {} }, { signal: controller.signal });
  await waiting;
  controller.abort('not needed');
  await expect(call).rejects.toThrow();
  await expect.poll(() => runs.length).toBe(1);
});

test('L7: a cached result is for the same tool, arguments and session, and cannot be changed', async () => {
  const lookups: boolean[] = [];
  const metrics = { cacheLookedUp: (found: boolean) => void lookups.push(found) };
  const sessions = sessionsWith({ identify: (key) => ({ userId: key }), metrics });
  const [ada, bob] = await Promise.all([connectAs(sessions, 'ada'), connectAs(sessions, 'bob')]);
  const first = (await ada.call('cached', { n: { a: 1, b: 2 } })).value;
  expect((await ada.call('cached', { n: { b: 2, a: 1 } })).value).toEqual(first);
  await ada.call('cached', { n: { a: 1, b: 3 } });
  await bob.call('cached', { n: { a: 1, b: 2 } });
  expect(runs).toEqual(['ran for ada', 'ran for ada', 'ran for bob']);
  expect(lookups).toEqual([false, true, false, false]);
  const [session] = await sessions.list({ userId: 'ada' });
  await sessions.end(session?.id ?? '');
  await ada.call('cached', { n: { a: 1, b: 2 } });
  expect(runs).toHaveLength(4);
});

test('L7: sessions of a user or a workspace share results by choice, with equal rights only', async () => {
  const sessions = sessionsWith({
    workspaces: ['/srv/one', '/srv/two'],
    identify(key) {
      const [userId = '', workspaceId, permission] = key.split('/');
      return { userId, workspaceId, agentId: key.replaceAll('/', '.'), permissions: permission ? [permission] : [] };
    },
  });
  const call = async (key: string, per: string) => (await connectAs(sessions, key)).call('cached', { n: per, per });
  await call('ada/one', 'user');
  await call('ada/one/a', 'user');
  await call('ada/two', 'user');
  await call('bob/one', 'user');
  expect(runs).toHaveLength(4);
  await call('ada/one', 'workspace');
  await call('bob/one', 'workspace');
  expect(runs).toHaveLength(5);
  await call('bob/one/a', 'workspace');
  await call('bob/two', 'workspace');
  expect(runs).toHaveLength(7);
});

test('L7: calls at the same time run once, and a failure is not cached', async () => {
  const caller = await connectPipe('v2', sessionsWith(), undefined, build);
  open.push(caller);
  await Promise.all([1, 2, 3].map(() => caller.call('cached', { n: 1 })));
  expect(runs).toHaveLength(1);
  for (let i = 0; i < 2; i++) expect((await caller.call('cached', { n: 2, mode: 'fail' })).text).toBe('failed');
  expect(runs).toHaveLength(3);
});

test('L8, L9: log and metrics tell of sessions and calls, without ids, users or arguments', async () => {
  const lines: string[] = [];
  const metrics: unknown[][] = [];
  const record = (event: string, fields?: object) => void lines.push(`${event} ${JSON.stringify(fields)}`);
  const sessions = sessionsWith({
    log: { info: record, warn: record, debug: record },
    metrics: {
      sessionOpened: (...given) => void metrics.push(['opened', ...given]),
      sessionEnded: (reason, seconds, calls) => void metrics.push(['ended', reason, seconds >= 0, calls]),
      called: (method, outcome, seconds) => void metrics.push([method, outcome, seconds >= 0]),
      quotaRefused: (...given) => void metrics.push(['quota', ...given]),
    },
    quotas: { session: { totalCalls: 2 } },
    local: { userId: 'ada-lovelace' },
  });
  const caller = await connectPipe('v2', sessions, undefined, build);
  open.push(caller);
  await caller.call('cached', { n: 'secret-argument' });
  await caller.call('cached', { n: 1, mode: 'fail' });
  await caller.call('record');
  const [session] = await sessions.list();
  await sessions.end(session?.id ?? '');
  expect(metrics).toEqual([
    ['opened', 'sandboxed'],
    ['tools/call', 'ok', true],
    ['tools/call', 'error', true],
    ['quota', 'session'],
    ['tools/call', 'QUOTA_EXCEEDED', true],
    ['ended', 'ended', true, 2],
  ]);
  const all = lines.join('\n');
  expect(lines.filter((line) => line.startsWith('call '))).toHaveLength(3);
  expect(all).toContain(`"session":"${session?.id.slice(0, 8)}"`);
  expect(all).not.toContain(session?.id);
  expect(all).not.toContain('ada-lovelace');
  expect(all).not.toContain('secret-argument');
});
