import { randomUUID } from 'node:crypto';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { Client } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { injectSessionContext } from '../../../src/index.ts';
import { startRecorder, stdioRecorder } from '../../fixtures/start-recorder.ts';
import { hasBwrap } from '../../needs/bwrap.ts';
import { callModern, readAnswer, readToolText, sendModern } from '../raw-mcp-client.ts';
import { requestControl } from '../request-control.ts';
import { type RunningAmbit, repository, startAmbit } from '../start-ambit.ts';
import { readJournal } from '../start-probed-ambit.ts';
import { createLogLines } from './log-lines.ts';

/**
 * What the orchestrator Parachute asks for: every MCP server that it starts learns from its environment for which session
 * it works, and no agent can change that. The document's parts in its order, with one real gateway for all of them.
 */

const levels = hasBwrap() ? (['direct', 'sandboxed'] as const) : (['direct'] as const);
type Level = 'direct' | 'sandboxed';

const example = (path: string) => ({ command: process.execPath, args: [join(repository, 'examples', path)] });
const vaultPath = '/vault';
const folder = mkdtempSync(join(tmpdir(), 'ambit-parachute-'));
const log = createLogLines();
let ambit: RunningAmbit;
let web: Awaited<ReturnType<typeof startRecorder>>;

beforeAll(async () => {
  for (const name of ['my-project', 'other']) mkdirSync(join(folder, name));
  const shared = { ...stdioRecorder, env: { PARACHUTE_VAULT_PATH: vaultPath } };
  const project = { extra: stdioRecorder, forged: { ...stdioRecorder, env: { PARACHUTE_TRUST_LEVEL: 'direct' } } };
  writeFileSync(join(folder, '.mcp.json'), JSON.stringify({ mcpServers: project }));
  web = await startRecorder();
  ambit = await startAmbit(
    {
      context: { envPrefixes: ['AMBIT', 'PARACHUTE'] },
      include: [join(folder, '.mcp.json')],
      servers: {
        vault: example('parachute/vault.mjs'),
        notes: example('notes/notes.mjs'),
        lasting: shared,
        'one-shot': { ...shared, scope: 'call' },
        pinned: { ...stdioRecorder, env: { PARACHUTE_SESSION_ID: 'custom_session', PARACHUTE_TRUST_LEVEL: 'direct' } },
        deploy: { ...stdioRecorder, trust: ['direct'] },
        untold: { ...stdioRecorder, context: 'none' },
        broken: { command: process.execPath, args: ['-e', 'process.exit(1)'] },
        web: { url: web.url, trust: ['direct', 'sandboxed'] },
      },
      workspaces: {
        'my-project': {
          path: join(folder, 'my-project'),
          env: { lasting: { CUSTOM_VAR: 'workspace-specific-value' } },
        },
        other: { path: join(folder, 'other'), trust: 'sandboxed', capabilities: { servers: ['lasting', 'deploy'] } },
        closed: { path: join(folder, 'closed'), create: true, capabilities: { servers: 'none' } },
      },
    },
    { AMBIT_LOG_LEVEL: 'debug', AMBIT_LOG_FORMAT: 'json' },
  );
  createInterface({ input: ambit.process.stderr! }).on('line', log.add);
});

afterAll(async () => {
  await ambit?.stop();
  await web?.stop();
  rmSync(folder, { recursive: true, force: true });
});

const control = <T>(method: string, path: string, body?: unknown) =>
  requestControl<T>(join(ambit.dataDir, 'control.sock'), method, `/api/v1${path}`, body);

interface Opened {
  readonly id: string;
  readonly token: string;
}

/** A session as the orchestrator opens it: with the id that it has in its own database. */
const open = (draft: object = {}) =>
  control<Opened>('POST', '/sessions', { id: randomUUID(), userId: 'ada', workspaceId: 'my-project', ...draft });

const call = (session: Opened, server: string, tool: string, args: object = {}, meta?: object) =>
  readToolText(
    callModern(ambit.mcp(server), session.token, tool, JSON.stringify(args), {
      ...(meta && { meta: JSON.stringify(meta).slice(1, -1) }),
    }),
  );

type Environment = Readonly<Record<string, string>>;

const readEnvironment = async (session: Opened, server: string, meta?: object) =>
  JSON.parse(await call(session, server, 'environment', {}, meta)) as Environment;

const contextOf = ({ id }: Opened, trustLevel: Level, workspaceId = 'my-project') => ({
  PARACHUTE_SESSION_ID: id,
  PARACHUTE_WORKSPACE_ID: workspaceId,
  PARACHUTE_TRUST_LEVEL: trustLevel,
});

describe.concurrent('Architecture flow: load, filter by trust, filter by workspace, inject, spawn', () => {
  interface View {
    readonly mcpServers: Record<string, { readonly env?: Environment }>;
    readonly servers: { readonly name: string; readonly available: boolean; readonly reason?: string }[];
  }
  const resolve = async ({ id }: Opened) => {
    const { mcpServers, servers } = await control<View>('GET', `/sessions/${id}/servers`);
    return {
      mcpServers,
      missing: Object.fromEntries(servers.flatMap((each) => (each.available ? [] : [[each.name, each.reason]]))),
    };
  };

  test('P2, P6, P7: each step leaves out what it forbids, and says why', async () => {
    const { mcpServers, missing } = await resolve(await open({ workspaceId: 'other', trustLevel: 'sandboxed' }));
    expect(Object.keys(mcpServers)).toEqual(['lasting']);
    expect(missing).toMatchObject({
      deploy: expect.stringContaining('for direct sessions only'),
      vault: expect.stringContaining('not in the list of servers of the workspace "other"'),
    });
    expect((await resolve(await open())).missing).toMatchObject({ extra: expect.stringContaining('approved') });
    expect((await resolve(await open({ workspaceId: 'closed' }))).mcpServers).toEqual({});
  });

  test('P14: an agent can be limited to servers of its own list', async () => {
    const { mcpServers } = await resolve(await open({ servers: ['notes', 'vault'], trustLevel: 'direct' }));
    expect(Object.keys(mcpServers).sort()).toEqual(['notes', 'vault']);
  });

  test('P2: what is left has the context of the session, ready for an agent SDK', async () => {
    const session = await open({ trustLevel: 'direct' });
    const { mcpServers } = await resolve(session);
    expect(mcpServers['lasting']?.env).toMatchObject({
      ...contextOf(session, 'direct'),
      PARACHUTE_VAULT_PATH: vaultPath,
      CUSTOM_VAR: 'workspace-specific-value',
    });
  });

  test('P14: a server over HTTP gets the token of the session’s user', async () => {
    const credential = { server: 'web', header: 'authorization' };
    for (const userId of ['ada', 'bob']) {
      await control('POST', '/credentials', { ...credential, userId, value: `Bearer of ${userId}` });
    }
    for (const userId of ['ada', 'bob']) await call(await open({ userId }), 'web', 'echo');
    const requests = (await (await fetch(new URL('/recorded', web.url))).json()) as {
      headers: string[];
      body: string;
    }[];
    const carried = requests
      .filter(({ body }) => body.includes('"tools/call"'))
      .map(({ headers }) => headers.join(' '));
    expect(carried.map((text) => /Bearer of \w+/.exec(text)?.[0])).toEqual(['Bearer of ada', 'Bearer of bob']);
  });

  test('P3: a session id that the operator pinned stays, a pinned trust level does not', async () => {
    const trustLevel = levels.at(-1) as Level;
    const environment = await readEnvironment(await open({ trustLevel }), 'pinned');
    expect(environment).toMatchObject({ PARACHUTE_SESSION_ID: 'custom_session', PARACHUTE_TRUST_LEVEL: trustLevel });
  });

  test('P2: a server that cannot start is an error of its own calls, and of nothing else', async () => {
    const session = await open({ trustLevel: 'direct' });
    expect(await call(session, 'broken', 'any')).toMatch(/^UPSTREAM_FAILED: /);
    expect(await readEnvironment(session, 'lasting')).toMatchObject(contextOf(session, 'direct'));
    await log.find({ event: 'server not started', server: 'broken' });
  });
});

describe.concurrent('Phase 1, the injection function', () => {
  const inject = (servers: Record<string, { command: string; env?: Environment }>, context: object = {}) => {
    const all = { sessionId: 'sess_abc', workspaceId: 'my-ws', trustLevel: 'sandboxed', ...context };
    return injectSessionContext(servers, all, { prefixes: ['PARACHUTE'] });
  };
  const told = {
    PARACHUTE_SESSION_ID: 'sess_abc',
    PARACHUTE_WORKSPACE_ID: 'my-ws',
    PARACHUTE_TRUST_LEVEL: 'sandboxed',
  };

  test('P1: all servers get all three variables, with or without an environment of their own', () => {
    const servers = { one: { command: 'python' }, two: { command: 'node', env: { CUSTOM_VAR: 'keep_me' } } };
    expect(inject(servers)).toEqual({
      one: { command: 'python', env: told },
      two: { command: 'node', env: { ...told, CUSTOM_VAR: 'keep_me' } },
    });
  });

  test('P1: no workspace is the empty string', () => {
    const { test: server } = inject({ test: { command: 'python' } }, { workspaceId: '' });
    expect(server?.env).toMatchObject({ PARACHUTE_WORKSPACE_ID: '' });
  });

  test('P3: what the operator has set before stays, except the trust level', () => {
    const env = { PARACHUTE_SESSION_ID: 'custom_session', PARACHUTE_TRUST_LEVEL: 'direct' };
    const { test: server } = inject({ test: { command: 'python', env } });
    expect(server?.env).toEqual({ ...told, PARACHUTE_SESSION_ID: 'custom_session' });
  });

  test('P2: the map that was loaded is not changed, so no other session gets the context', () => {
    const servers = { test: { command: 'python', env: { A: 'a' } } };
    inject(servers);
    expect(servers).toEqual({ test: { command: 'python', env: { A: 'a' } } });
  });

  test('P6, P8: trust levels are normalised, and what is no id, no slug and no level is refused', () => {
    const { test: server } = inject({ test: { command: 'python' } }, { trustLevel: 'untrusted' });
    expect(server?.env).toMatchObject({ PARACHUTE_TRUST_LEVEL: 'sandboxed' });
    const wrong = [
      { trustLevel: 'root' },
      { workspaceId: '../other' },
      { sessionId: 'a\nPARACHUTE_TRUST_LEVEL=direct' },
    ];
    for (const context of wrong) expect(() => inject({ test: { command: 'python' } }, context)).toThrow(/not valid/);
  });
});

describe.concurrent.each(levels)('Phases 2 and 3, in a %s session', (trustLevel) => {
  test.each(['lasting', 'one-shot'])('P1, P5: the variables reach the process, %s', async (server) => {
    const session = await open({ trustLevel, agentId: 'coder' });
    expect(await readEnvironment(session, server)).toMatchObject({
      ...contextOf(session, trustLevel),
      PARACHUTE_USER_ID: 'ada',
      PARACHUTE_AGENT_ID: 'coder',
      PARACHUTE_VAULT_PATH: vaultPath,
    });
  });

  test('P1: without a workspace, its variable is empty', async () => {
    const session = await control<Opened>('POST', '/sessions', { trustLevel });
    expect(await readEnvironment(session, 'lasting')).toMatchObject(contextOf(session, trustLevel, ''));
  });

  test('P11: a server logs its session when it starts, scopes by workspace and enforces trust', async () => {
    const session = await open({ trustLevel });
    expect(await call(session, 'vault', 'add_note', { text: 'x' })).toBe('Kept in my-project.');
    const allowed = trustLevel === 'direct' ? 'Deleted.' : 'Only direct sessions may delete notes.';
    expect(await call(session, 'vault', 'delete_notes')).toBe(allowed);
    const { lines } = await control<{ lines: unknown[] }>('GET', `/servers/vault/logs?session=${session.id}`);
    const line = `session=${session.id.slice(0, 8)} workspace=my-project trust=${trustLevel}`;
    expect(lines).toMatchObject([{ line, pid: expect.any(Number) }]);
  });

  test('P9: a server that knows nothing of sessions works as before', async () => {
    const session = await open({ trustLevel });
    expect(await call(session, 'notes', 'write_note', { path: trustLevel, text: 'kept' })).toBe(`Kept ${trustLevel}.`);
    expect(await call(session, 'notes', 'read_note', { path: trustLevel })).toBe('kept');
  });
});

test.concurrent('P9: Phase 2, a server that was started without an orchestrator works, and says so', async () => {
  const transport = new StdioClientTransport({ ...example('parachute/vault.mjs'), stderr: 'pipe', cwd: folder });
  const said = new Promise((heard) => createInterface({ input: transport.stderr as never }).once('line', heard));
  const client = new Client({ name: 'legacy', version: '1' });
  await client.connect(transport);
  const { content } = await client.callTool({ name: 'list_notes', arguments: {} });
  expect(content).toEqual([{ type: 'text', text: 'No notes.' }]);
  expect(await said).toBe('started without a session');
  await client.close();
});

describe.concurrent('Security 1, an agent that claims to be another session', () => {
  const claims = { sessionId: 'other', workspaceId: 'other', trustLevel: 'direct', userId: 'bob' };
  const variables = { PARACHUTE_SESSION_ID: 'other', PARACHUTE_TRUST_LEVEL: 'direct', PARACHUTE_USER_ID: 'bob' };

  test.each([
    ['arguments', { ...claims, env: variables }, {}],
    ['_meta', {}, { 'ambit/context': { ...claims, token: 'a.b.c' }, env: variables, ...claims }],
  ])('P4: is not believed, in %s', async (_, args, meta) => {
    const session = await open({ trustLevel: levels.at(-1) });
    const before = await readEnvironment(session, 'lasting');
    const sent = JSON.parse(await call(session, 'lasting', 'echo', args, meta)) as {
      params: { arguments: object; _meta: Record<string, object> };
    };
    // What the agent writes reaches the tool, as what it is: arguments.
    expect(sent.params.arguments).toEqual(args);
    expect(sent.params._meta['ambit/context']).toMatchObject({ sessionId: session.id, userId: 'ada' });
    expect(await readEnvironment(session, 'lasting', meta)).toEqual(before);
  });

  test('P4: is not believed in a project file that it can write, which needs an approval as well', async () => {
    const session = await open();
    expect(await call(session, 'forged', 'environment')).toMatch(/^SERVER_NOT_AVAILABLE: /);
    expect(await call(session, 'extra', 'environment')).toMatch(/^SERVER_NOT_APPROVED: /);
  });

  test('P4: has no way to other sessions or to the orchestrator with its token', async () => {
    const [session, other] = [await open(), await open()];
    const answer = await call(session, 'ambit', 'session_end', { session: other.id });
    expect(answer).toMatch(/^SESSION_NOT_FOUND: /);
    const headers = { authorization: `Bearer ${session.token}` };
    expect((await fetch(`${ambit.url}/api/v1/sessions`, { headers })).status).toBe(401);
  });
});

describe.concurrent('Security 2, session isolation', () => {
  test('P8, P15: parallel sessions have processes, variables and temporary folders of their own', async () => {
    const drafts = [...levels, ...levels].map((trustLevel, i) => ({ trustLevel, userId: i < 2 ? 'ada' : 'bob' }));
    const seen = await Promise.all(
      drafts.map(async (draft) => {
        const session = await open(draft);
        const both = await Promise.all([readEnvironment(session, 'lasting'), readEnvironment(session, 'lasting')]);
        for (const each of both) expect(each).toMatchObject(contextOf(session, draft.trustLevel));
        const started = await log.find({ event: 'server started', server: 'lasting', session: session.id.slice(0, 8) });
        return { tmpdir: both[0]['TMPDIR'], pid: started['pid'], trustLevel: draft.trustLevel };
      }),
    );
    expect(new Set(seen.map(({ pid }) => pid)).size).toBe(drafts.length);
    // In a sandbox it is /tmp, which each sandbox has for itself.
    const folders = seen.flatMap((each) => (each.trustLevel === 'direct' ? each.tmpdir : []));
    expect(new Set(folders).size).toBe(folders.length);
  });
});

describe.concurrent('Security 3 and 4, trust levels and validation', () => {
  test.skipIf(!hasBwrap())(
    'P6: a sandboxed session never sees a direct-only server: it looks like an unknown one',
    async () => {
      const session = await open({ trustLevel: 'sandboxed', servers: ['deploy', 'vault'] });
      const list = (path: string) =>
        readAnswer(sendModern(`${ambit.url}${path}`, session.token, { method: 'tools/list' }));
      // All servers together have some seconds, so the server is started before.
      await list('/mcp/vault');
      const { result } = await list('/mcp');
      const names = ((result?.['tools'] ?? []) as { name: string }[]).map(({ name }) => name);
      expect(names).toContain('vault__add_note');
      expect(names.filter((name) => name.startsWith('deploy__'))).toEqual([]);
      const [hidden, unknown] = [await call(session, 'deploy', 'echo'), await call(session, 'nothing', 'echo')];
      expect(hidden.replace('deploy', 'nothing')).toBe(unknown);
    },
  );

  test('P6: no trust is gained: not above the workspace, not by a child, not later', async () => {
    await expect(open({ workspaceId: 'other', trustLevel: 'direct' })).rejects.toThrow('TRUST_REQUIRED');
    const parent = await open({ trustLevel: 'sandboxed' });
    await expect(open({ parentId: parent.id, trustLevel: 'direct' })).rejects.toThrow('TRUST_REQUIRED');
    await expect(control('PATCH', `/sessions/${parent.id}`, { trustLevel: 'direct' })).rejects.toThrow('403');
  });

  test.each([{ trustLevel: 'root' }, { workspaceId: '../other' }, { workspaceId: 'unknown' }, { id: '../../etc' }])(
    'P6, P8: %j is refused where it enters',
    async (draft) => {
      await expect(open(draft)).rejects.toThrow(/REQUEST_INVALID|WORKSPACE_NOT_FOUND/);
    },
  );

  test('P6: other spellings of a level are normalised', async () => {
    expect(await open({ trustLevel: 'trusted' })).toMatchObject({ trustLevel: 'direct' });
    expect(await open({ trustLevel: 'untrusted' })).toMatchObject({ trustLevel: 'sandboxed' });
  });
});

describe.concurrent('Monitoring and audit', () => {
  test('P15: one line for each injection, with eight characters of the session and never more', async () => {
    const session = await open({ trustLevel: 'direct' });
    await call(session, 'lasting', 'echo');
    const short = session.id.slice(0, 8);
    const line = { event: 'context injected', server: 'lasting', session: short, workspace: 'my-project' };
    await log.find({ ...line, trust: 'direct' });
    expect(log.text()).not.toContain(session.id);
    expect(log.text()).not.toContain(session.token);
  });

  test('P15: tool calls can be traced to their session and process', async () => {
    const session = await open({ trustLevel: 'direct' });
    await call(session, 'vault', 'list_notes');
    const { calls } = await control<{ calls: object[] }>('GET', `/sessions/${session.id}/calls`);
    expect(calls).toMatchObject([{ server: 'vault', method: 'tools/call', name: 'list_notes', outcome: 'ok' }]);
    const lines = readJournal(ambit.dataDir).filter(({ sessionId }) => sessionId === session.id);
    const pids = new Set(lines.filter(({ server }) => server === 'vault').map(({ pid }) => pid));
    expect(pids.size).toBe(1);
  });

  test('P15: metrics for the start of servers, for failures, and for calls without context', async () => {
    const session = await open({ trustLevel: 'direct' });
    expect(await readEnvironment(session, 'untold')).not.toHaveProperty('PARACHUTE_SESSION_ID');
    await call(session, 'broken', 'any');
    const metrics = await (await fetch(`${ambit.url}/metrics`)).text();
    const read = (name: string, server: string) =>
      Number(new RegExp(`^ambit_${name}\\{server="${server}"\\} (\\d+)`, 'm').exec(metrics)?.[1]);
    expect(read('process_start_seconds_count', 'untold')).toBe(1);
    expect(read('process_start_failures_total', 'broken')).toBeGreaterThan(0);
    expect(read('calls_without_context_total', 'untold')).toBeGreaterThan(0);
    expect(read('calls_without_context_total', 'lasting')).not.toBeGreaterThan(0);
  });

  test('the session ends with the run: its token is refused, and its processes end', async () => {
    const session = await open({ trustLevel: 'direct' });
    await call(session, 'lasting', 'echo');
    const ended = log.waitFor({ event: 'server ended', server: 'lasting', session: session.id.slice(0, 8) });
    await control('DELETE', `/sessions/${session.id}`);
    await ended;
    expect(await call(session, 'lasting', 'echo')).toMatch(/^SESSION_ENDED: /);
  });
});
