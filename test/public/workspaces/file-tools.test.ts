import { mkdir, mkdtemp, readFile, realpath, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { McpServer as McpServerV1 } from '@modelcontextprotocol/sdk/server/mcp.js';
import { McpServer } from '@modelcontextprotocol/server';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { createServerSessions, type ServerSessionsOptions, withSessions } from '../../../src/public/server/index.ts';
import {
  AmbitError,
  createFileTools,
  createPathRules,
  openDatabaseBackend,
  openLocalBackend,
  type WorkspaceBackend,
} from '../../../src/public/workspaces/index.ts';
import { openMemoryStore } from '../../../src/stores/index.ts';
import type { buildServer } from '../server/build-server.ts';
import { connectHttp, connectPipe, serveStateless } from '../server/connect-client.ts';
import { openClockedStore } from '../server/open-clocked-store.ts';

const open: { close(): Promise<void> }[] = [];
let base: string;
beforeEach(async () => {
  base = await realpath(await mkdtemp(join(tmpdir(), 'ambit-files-')));
  for (const name of ['one', 'two']) await mkdir(join(base, name));
});
afterEach(async () => {
  for (const each of open.splice(0).reverse()) await each.close();
  await rm(base, { recursive: true, force: true });
});

function sessionsWith(options: ServerSessionsOptions) {
  const log = { info() {}, warn() {} };
  const sessions = createServerSessions({ log, files: true, ...options, context: { env: {}, ...options.context } });
  open.push(sessions);
  return sessions;
}

/** A server without tools of its own. */
const buildEmpty = ((sdk, given) => {
  const Server = (sdk === 'v1' ? McpServerV1 : McpServer) as typeof McpServer;
  return withSessions(new Server({ name: 'empty', version: '1' }), given);
}) as typeof buildServer;

describe('the option "files"', () => {
  test.each(['v1', 'v2'] as const)('W1: adds the file tools, also to a server without tools (SDK %s)', async (sdk) => {
    const sessions = sessionsWith({ workspaces: `${base}/*`, local: { workspace: 'one' } });
    const caller = await connectPipe(sdk, sessions, undefined, buildEmpty);
    open.push(caller);
    const { tools } = await caller.client.listTools();
    expect(tools.map(({ name }) => name)).toEqual(expect.arrayContaining(['session_read_file', 'session_grep_search']));
    expect(tools.map(({ name }) => name)).not.toContain('session_end');
    await caller.call('session_edit_file', { path: 'notes/a.txt', content: 'alpha\n' });
    expect(await readFile(join(base, 'one/notes/a.txt'), 'utf8')).toBe('alpha\n');
    expect((await caller.call('session_grep_search', { pattern: 'alp' })).text).toContain('notes/a.txt');
    await caller.call('session_edit_file', { path: 'notes/a.txt', content: '# ... existing code ...\nalpha\nbeta\n' });
    expect(await readFile(join(base, 'one/notes/a.txt'), 'utf8')).toBe('alpha\nbeta\n');
    await expect(caller.call('no_such_tool')).rejects.toThrow();
  });

  test('W3, W7: nothing outside of the workspace and no secret in it can be reached', async () => {
    await writeFile(join(base, 'two/secret.txt'), 'of two');
    await writeFile(join(base, 'one/.env'), 'KEY=1');
    await symlink(join(base, 'two'), join(base, 'one/link'));
    const sessions = sessionsWith({ workspaces: `${base}/*`, local: { workspace: 'one' }, files: { hide: ['*.log'] } });
    const caller = await connectPipe('v2', sessions);
    open.push(caller);
    for (const path of ['../two/secret.txt', join(base, 'two/secret.txt'), 'link/secret.txt', '.env', 'x.log']) {
      const { error, text } = await caller.call('session_read_file', { path });
      expect(error?.code).toMatch(/^(?:PATH_VIOLATION|PATH_PROTECTED|FILE_NOT_FOUND|PATH_INVALID)$/);
      expect(text).not.toContain(base);
    }
  });

  test('S2: a session of another user, agent or workspace is not reached through "session"', async () => {
    const sessions = sessionsWith({
      workspaces: `${base}/*`,
      identify(key) {
        const [userId = '', agentId = '', workspaceId = ''] = key.split('/');
        return { userId, agentId, workspaceId };
      },
    });
    const fetch = serveStateless(sessions);
    const connect = async (key: string) => {
      const caller = await connectHttp(fetch, 'modern', undefined, { authorization: `Bearer ${key}` });
      open.push(caller);
      return caller;
    };
    const ada = await connect('ada/coder/one');
    await ada.call('session_edit_file', { path: 'a.txt', content: 'of ada' });
    const { sessionId } = (await ada.call('whoami')).value as { sessionId: string };
    for (const key of ['bob/coder/one', 'ada/reviewer/one', 'ada/coder/two']) {
      const refused = await (await connect(key)).call('session_read_file', { session: sessionId, path: 'a.txt' });
      expect(refused.error).toMatchObject({ code: 'SESSION_NOT_FOUND' });
    }
    const again = await (await connect('ada/coder/one')).call('session_read_file', {
      session: sessionId,
      path: 'a.txt',
    });
    expect(again.text).toContain('of ada');
  });

  test('L4: using the files of a session keeps it alive, also from another session', async () => {
    const { store, now, pass } = openClockedStore();
    const sessions = sessionsWith({
      store,
      ttlSeconds: 60,
      workspaces: `${base}/*`,
      local: { trustLevel: 'direct' },
      context: { now },
    });
    await sessions.open({ name: 'task#049', workspaceId: 'one' });
    await sessions.open({ name: 'task#050', workspaceId: 'two' });
    const caller = await connectPipe('v2', sessions);
    open.push(caller);
    for (let i = 0; i < 3; i++) {
      pass(40);
      await caller.call('whoami');
      const { error } = await caller.call('session_list_dir', { session: 'task#049' });
      expect(error).toBeUndefined();
    }
    const forgotten = await caller.call('session_list_dir', { session: 'task#050' });
    expect(forgotten.error).toMatchObject({ code: 'SESSION_NOT_FOUND' });
    await sessions.close();
    await store.close();
  });

  test('a store inside of a workspace is refused: an agent could rewrite its session', async () => {
    const sessions = sessionsWith({
      workspaces: `${base}/*`,
      local: { workspace: 'one' },
      storeDir: join(base, 'one/store'),
    });
    const caller = await connectPipe('v2', sessions);
    open.push(caller);
    const refused = await caller.call('session_list_dir', {});
    expect(refused.error).toMatchObject({ code: 'CONFIG_INVALID' });
    expect(refused.text).toContain('storeDir');
  });

  test('W5: files can lie in the store, or in a backend of the author', async () => {
    const workspaces = [{ id: 'virtual' }];
    const inStore = sessionsWith({ workspaces, local: { workspace: 'virtual' }, files: { backend: 'database' } });
    const opened: unknown[] = [];
    const own = sessionsWith({
      workspaces: `${base}/*`,
      local: { workspace: 'two' },
      files: {
        backend: ({ id, path }, rules) => {
          opened.push(id);
          return openLocalBackend(path as string, { rules });
        },
      },
    });
    for (const sessions of [inStore, own]) {
      const caller = await connectPipe('v2', sessions);
      open.push(caller);
      await caller.call('session_edit_file', { path: 'a.txt', content: 'kept' });
      expect((await caller.call('session_read_file', { path: 'a.txt' })).text).toContain('kept');
      expect((await caller.call('session_read_file', { path: '.env' })).error).toBeDefined();
    }
    expect(opened).toEqual(['two']);
    expect(await readFile(join(base, 'two/a.txt'), 'utf8')).toBe('kept');
  });
});

test('W1, W2, W4: the file tools work in a server with its own sessions', async () => {
  const store = openMemoryStore();
  const rules = createPathRules();
  const backends = new Map<string, WorkspaceBackend>([
    ['task#049', openLocalBackend(join(base, 'one'), { rules })],
    ['task#050', openDatabaseBackend(store.documents, 'task-050', { rules })],
  ]);
  const seen: string[] = [];
  const tools = createFileTools({
    findFolder(session = '') {
      const backend = backends.get(session);
      if (backend === undefined) throw new AmbitError('SESSION_NOT_FOUND', { hint: 'Start one with "task start".' });
      return { sessionId: session, backend };
    },
    onResolution: ({ sessionId, asked, decision }) => void seen.push(`${sessionId} ${asked} ${decision}`),
    limits: { fileBytes: 10 },
  });
  expect(tools.list().map(({ name }) => name)).toContain('session_move_file');
  for (const session of backends.keys()) {
    expect((await tools.call('session_edit_file', { session, path: 'a', content: session })).isError).toBeUndefined();
    const { content } = await tools.call('session_read_file', { session, path: 'a' });
    expect(content[0].text).toContain(session);
  }
  const tooLarge = await tools.call('session_edit_file', { session: 'task#049', path: 'b', content: 'x'.repeat(11) });
  expect(tooLarge.content[0].text).toMatch(/^FILE_TOO_LARGE/);
  const outside = await tools.call('session_read_file', { session: 'task#049', path: '../two/x' });
  expect(outside.content[0].text).toMatch(/^PATH_VIOLATION/);
  const unknown = await tools.call('session_read_file', { session: 'task#051', path: 'a' });
  expect(unknown.content[0].text).toMatch(/^SESSION_NOT_FOUND: .*task start/);
  expect(seen).toContain('task#049 ../two/x refused');
  await tools.close();
  for (const backend of backends.values()) await backend.close();
  await store.close();
});
