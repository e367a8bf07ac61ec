import { mkdir, mkdtemp, realpath, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { McpServer as McpServerV1 } from '@modelcontextprotocol/sdk/server/mcp.js';
import { McpServer } from '@modelcontextprotocol/server';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { z } from 'zod';
import { resolveWorkspace } from '../../../src/public/sdk/index.ts';
import { createServerSessions, type ServerSessionsOptions, withSessions } from '../../../src/public/server/index.ts';
import type { buildServer } from './build-server.ts';
import { connectHttp, connectPipe, serveStateless } from './connect-client.ts';

const open: { close(): Promise<void> }[] = [];
const lines: string[] = [];
let base: string;
beforeEach(async () => {
  base = await realpath(await mkdtemp(join(tmpdir(), 'ambit-declared-')));
  for (const name of ['one', 'two', 'Not A Slug']) await mkdir(join(base, name));
});
afterEach(async () => {
  for (const each of open.splice(0).reverse()) await each.close();
  await rm(base, { recursive: true, force: true });
  lines.length = 0;
});

const log = {
  info: (event: string, fields?: object) => void lines.push(`${event} ${JSON.stringify(fields)}`),
  warn() {},
};

function sessionsWith(options: ServerSessionsOptions) {
  const sessions = createServerSessions({ log, ...options, context: { env: {} } });
  open.push(sessions);
  return sessions;
}

const build = ((sdk, given) => {
  const Server = (sdk === 'v1' ? McpServerV1 : McpServer) as typeof McpServer;
  const server = withSessions(new Server({ name: 'where', version: '1' }), given);
  const inputSchema = z.object({ workspace: z.string().optional() });
  server.registerTool('where', { inputSchema }, async ({ workspace }) => ({
    content: [{ type: 'text', text: JSON.stringify(resolveWorkspace({ explicit: workspace })) }],
  }));
  return server;
}) as typeof buildServer;

/** Connects a client that announces a workspace with each request. */
async function connectModern(options: ServerSessionsOptions) {
  const sessions = sessionsWith({ principal: () => ({ userId: 'ada' }), ...options });
  const caller = await connectHttp(serveStateless(sessions, build), 'modern');
  open.push(caller);
  return caller;
}

async function connectLocal(options: ServerSessionsOptions) {
  const caller = await connectPipe('v2', sessionsWith(options), undefined, build);
  open.push(caller);
  return caller;
}

const announce = (workspace: string) => ({ ambit: { workspace } });

describe('a root of workspaces', () => {
  test('O3: each folder with a slug is one; links, other names and paths outside are not', async () => {
    await symlink('/etc', join(base, 'linked'));
    await writeFile(join(base, 'file'), '');
    const caller = await connectLocal({ workspaces: `${base}/*` });
    const one = { workspace: 'one', from: 'argument', path: join(base, 'one') };
    for (const workspace of ['one', join(base, 'one'), `${base}/one/`, `${base}/two/../one`]) {
      expect((await caller.call('where', { workspace })).value).toEqual(one);
    }
    const outside = ['linked', 'file', 'Not A Slug', '.', '..', '', '/etc', `${base}/one/deeper`, base, 'ONE', 'one\0'];
    for (const workspace of outside) {
      const { error, text } = await caller.call('where', { workspace });
      expect(error?.code).toMatch(/^WORKSPACE_(?:NOT_FOUND|REQUIRED)$/);
      expect(text).toMatch(/: "one", "two"\.$/);
    }
  });

  test('a folder that is made later is a workspace', async () => {
    const caller = await connectLocal({ workspaces: `${base}/*` });
    expect((await caller.call('where', { workspace: 'three' })).error).toMatchObject({ code: 'WORKSPACE_NOT_FOUND' });
    await mkdir(join(base, 'three'));
    expect((await caller.call('where', { workspace: 'three' })).value).toMatchObject({ workspace: 'three' });
  });
});

test('O3: a difference between argument and session is logged at info, and the argument wins', async () => {
  const caller = await connectLocal({
    workspaces: [join(base, 'one'), join(base, 'two')],
    local: { workspace: 'one' },
  });
  expect((await caller.call('where')).value).toMatchObject({ workspace: 'one', from: 'session' });
  expect(lines).toEqual([]);
  expect((await caller.call('where', { workspace: 'two' })).value).toMatchObject({ workspace: 'two' });
  expect(lines).toEqual([expect.stringMatching(/^another workspace was given .*"chosen":"two","workspace":"one"/)]);
});

test('O1, O3: an announced workspace that is not available leads to an error that lists the others', async () => {
  const caller = await connectModern({ workspaces: [join(base, 'one')], files: true });
  const meta = announce('three');
  for (const [tool, args] of [
    ['where', {}],
    ['session_read_file', { path: 'a' }],
  ] as const) {
    const { error, text } = await caller.call(tool, args, meta);
    expect(error).toMatchObject({ code: 'WORKSPACE_NOT_FOUND' });
    expect(text).toMatch(/"three".*"one"/);
  }
  expect((await caller.call('where', { workspace: 'one' }, meta)).value).toMatchObject({ workspace: 'one' });
  const contradiction = { ambit: { workspace: 'one' }, 'ambit.workspace': 'two' };
  expect((await caller.call('where', {}, contradiction)).error).toMatchObject({ code: 'REQUEST_INVALID' });
});

test('O1: other keys can be configured, and then only those count', async () => {
  const caller = await connectModern({ workspaces: `${base}/*`, announceKeys: ['orbit'] });
  expect((await caller.call('where', {}, { orbit: { workspace: 'one' } })).value).toMatchObject({ workspace: 'one' });
  expect((await caller.call('where', {}, { 'orbit.workspace': 'two' })).value).toMatchObject({ workspace: 'two' });
  expect((await caller.call('where', {}, announce('one'))).error).toMatchObject({ code: 'WORKSPACE_REQUIRED' });
});

test('O2: over HTTP a credential limits what can be announced and given', async () => {
  const callers = {
    free: { userId: 'ada' },
    fixed: { userId: 'ada', workspaceId: 'one' },
    some: { userId: 'ada', workspaces: ['two', 'one'] },
  };
  const sessions = sessionsWith({
    workspaces: [...['one', 'two'].map((name) => join(base, name)), { id: 'three', path: '/srv/three' }],
    identify: (key) => callers[key as keyof typeof callers],
  });
  const fetch = serveStateless(sessions, build);
  const connect = async (key: string) => {
    const caller = await connectHttp(fetch, 'modern', undefined, { authorization: `Bearer ${key}` });
    open.push(caller);
    return (args: object, meta?: object) => caller.call('where', args as Record<string, unknown>, meta);
  };
  const [free, fixed, some] = await Promise.all([connect('free'), connect('fixed'), connect('some')]);
  expect((await free({}, announce('three'))).value).toMatchObject({ workspace: 'three' });
  expect((await free({})).error).toMatchObject({ code: 'WORKSPACE_REQUIRED' });
  expect((await fixed({}, announce('two'))).value).toMatchObject({ workspace: 'one' });
  expect((await fixed({ workspace: 'two' })).error).toMatchObject({ code: 'WORKSPACE_NOT_FOUND' });
  expect((await some({})).value).toMatchObject({ workspace: 'two' });
  expect((await some({}, announce('one'))).value).toMatchObject({ workspace: 'one' });
  const { error, text } = await some({}, announce('three'));
  expect(error).toMatchObject({ code: 'WORKSPACE_NOT_FOUND' });
  expect(text).toMatch(/: "one", "two"\.$/);
  expect((await some({ workspace: 'one' }, announce('three'))).value).toMatchObject({ workspace: 'one' });
  expect((await some({ workspace: 'three' })).error).toMatchObject({ code: 'WORKSPACE_NOT_FOUND' });
  expect(lines.filter((line) => line.startsWith('announced workspace ignored'))).toHaveLength(2);
});

test('a function declares the workspaces of each caller, and a mistake in it is not shown to the client', async () => {
  const seen: unknown[] = [];
  const warnings: string[] = [];
  const sessions = sessionsWith({
    log: { info() {}, warn: (event) => void warnings.push(event) },
    identify: (key) => ({ userId: key, agentId: 'coder' }),
    workspaces: async (caller) => {
      seen.push(caller);
      return caller.userId === 'eve' ? ['secret/relative'] : [{ id: caller.userId, path: `/srv/${caller.userId}` }];
    },
  });
  const fetch = serveStateless(sessions, build);
  for (const user of ['ada', 'bob']) {
    const caller = await connectHttp(fetch, 'modern', undefined, { authorization: `Bearer ${user}` });
    open.push(caller);
    expect((await caller.call('where', { workspace: user })).value).toMatchObject({ path: `/srv/${user}` });
    const other = user === 'ada' ? 'bob' : 'ada';
    expect((await caller.call('where', { workspace: other })).error).toMatchObject({ code: 'WORKSPACE_NOT_FOUND' });
  }
  expect(seen[0]).toEqual({ userId: 'ada', agentId: 'coder', trustLevel: 'sandboxed', permissions: [] });
  const eve = await connectHttp(fetch, 'modern', undefined, { authorization: 'Bearer eve' });
  open.push(eve);
  const refused = await eve.call('where');
  expect(refused.error).toMatchObject({ code: 'CONFIG_INVALID' });
  expect(refused.text).not.toContain('secret');
  expect(warnings).toEqual(['workspaces cannot be found']);
});
