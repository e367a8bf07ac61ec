import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { text } from 'node:stream/consumers';
import { setTimeout as pause } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { McpServer, SessionServers } from '../../../src/index.ts';
import { callModern, readToolText } from '../../journeys/raw-mcp-client.ts';
import { type ExitedCommand, repository, type ServeProcess, startServe } from '../../journeys/start-ambit.ts';
import { pathWithoutBwrap } from '../../needs/bwrap.ts';
import { ambitInProcess } from '../in-process.ts';

type Started = Extract<McpServer, { readonly command: string }>;
type Reached = Extract<McpServer, { readonly url: string }>;

const folder = mkdtempSync(join(tmpdir(), 'ambit-resolve-'));
const places = ['--config', join(folder, 'etc', 'ambit.yaml'), '--data-dir', join(folder, 'data')];
const recorder = join(repository, 'test/fixtures/recorder/stdio.js');
let gateway: ServeProcess;

const ambit = (...args: string[]): Promise<ExitedCommand> => ambitInProcess([...args, ...places]);
async function json<T>(...args: string[]): Promise<T> {
  const { code, stdout, stderr } = await ambit(...args, '--json');
  expect(code, stderr).toBe(0);
  return JSON.parse(stdout) as T;
}

beforeAll(async () => {
  for (const name of ['etc', 'garden', 'project']) mkdirSync(join(folder, name));
  writeFileSync(join(folder, 'project/.mcp.json'), '{"mcpServers":{"theirs":{"command":"touch","args":["ran"]}}}');
  writeFileSync(
    join(folder, 'etc/ambit.yaml'),
    `version: 1
include: [../project/.mcp.json]
servers:
  recorder: { command: ${process.execPath}, args: [${recorder}], env: { TOKEN: sk-secret, AMBIT_AGENT_ID: pinned } }
  ${'long-'.repeat(7)}name: { command: x, trust: sandboxed }
  web: { url: "https://x.example/mcp", headers: { A: b } }
  off: { command: x, disabled: true }
  hidden: { command: x }
workspaces:
  garden:
    path: ../garden
    capabilities: { servers: [recorder, web, theirs, off, ${'long-'.repeat(7)}name] }
    env: { recorder: { IN: the garden } }
`,
  );
  gateway = await startServe(places);
  const session = ['session', 'create', '--workspace', 'garden', '--user', 'ada', '--json'];
  await ambit(...session, '--name', 'free', '--trust', 'direct', '--server', 'recorder', '--server', 'web');
  await ambit(...session, '--name', 'boxed', '--trust', 'sandboxed');
});

afterAll(async () => {
  await gateway?.stop('SIGTERM');
  rmSync(folder, { recursive: true, force: true });
});

/** Starts an entry as an agent SDK would and asks it one thing. */
async function ask({ command, args, env }: Started, method: string, params: unknown): Promise<string> {
  const child = spawn(command, args, { env: { PATH: process.env['PATH'], ...env }, stdio: ['pipe', 'pipe', 'ignore'] });
  try {
    const meta = { 'io.modelcontextprotocol/protocolVersion': '2026-07-28' };
    const capabilities = { 'io.modelcontextprotocol/clientCapabilities': {} };
    const asked = { ...(params as object), _meta: { ...meta, ...capabilities } };
    child.stdin.write(`${JSON.stringify({ jsonrpc: '2.0', id: 1, method, params: asked })}\n`);
    const [line] = (await once(createInterface({ input: child.stdout }), 'line')) as [string];
    return line;
  } finally {
    await waitForExit(child);
  }
}

async function waitForExit(child: ChildProcess): Promise<void> {
  const exited = once(child, 'exit');
  child.stdin?.end();
  if (child.exitCode === null) await exited;
}

const environment = { name: 'environment', arguments: {} };
const wordsOf = (line: string) =>
  (JSON.parse(line) as { result: { content: { text: string }[] } }).result.content[0]?.text ?? '';

describe('ambit resolve', () => {
  test('P2: prints what an agent SDK can start, and what starts knows its session', async () => {
    const { stdout } = await ambit('resolve', '--session', 'free');
    const { mcpServers, ...others } = JSON.parse(stdout) as SessionServers;
    expect(others).toEqual({});
    expect(Object.keys(mcpServers).sort()).toEqual(['recorder', 'web']);
    expect(mcpServers['web']).toEqual({ type: 'http', url: 'https://x.example/mcp', headers: { A: 'b' } });
    const entry = mcpServers['recorder'] as Started;
    expect(entry).toMatchObject({ command: process.execPath, args: [recorder] });
    expect(JSON.parse(wordsOf(await ask(entry, 'tools/call', environment)))).toEqual({
      PATH: process.env['PATH'],
      TOKEN: 'sk-secret',
      IN: 'the garden',
      AMBIT_SESSION_ID: expect.stringMatching(/^[0-9a-f]{32}$/),
      AMBIT_WORKSPACE_ID: 'garden',
      AMBIT_WORKSPACE_PATH: join(folder, 'garden'),
      AMBIT_TRUST_LEVEL: 'direct',
      AMBIT_USER_ID: 'ada',
      AMBIT_AGENT_ID: 'pinned',
      AMBIT_JWKS: expect.stringContaining('"kty":"OKP"'),
    });
  });

  test('P6: a sandboxed session gets its commands wrapped, and they do not start outside a sandbox', async () => {
    const { mcpServers } = await json<SessionServers>('resolve', '--session', 'boxed');
    const entry = mcpServers['recorder'] as Started;
    expect(entry.args).toEqual(expect.arrayContaining(['run', '--session', '--', process.execPath, recorder]));
    expect(entry.env).toMatchObject({ AMBIT_TRUST_LEVEL: 'sandboxed', TOKEN: 'sk-secret' });
    const without = { ...entry, env: { ...entry.env, PATH: pathWithoutBwrap } };
    expect(await ask(without, 'tools/call', environment)).toContain('SANDBOX_UNAVAILABLE');
  });

  test('--explain shows which servers are included, by which rule, and the source of each variable, within 80 columns', async () => {
    const { stdout } = await ambit('resolve', '--session', 'boxed', '--explain', '--via', 'gateway');
    expect(stdout.split('\n').filter((line) => line.length > 80)).toEqual([]);
    expect(stdout).toMatch(/^recorder +yes$/m);
    expect(stdout).toMatch(/^web +no +it is for direct sessions only; this/m);
    expect(stdout).toMatch(/\(servers\.web\.trust\)$/m);
    expect(stdout).toMatch(/^off +no +it is disabled/m);
    expect(stdout).toMatch(/^hidden +no +it is not in the list of servers/m);
    expect(stdout).toMatch(/^theirs +no +it has not been approved/m);
    expect(stdout).toContain('(workspaces.garden.capabilities.servers)');
    for (const [name, from] of [
      ['TOKEN', 'configured'],
      ['IN', 'workspace'],
      ['AMBIT_AGENT_ID', 'pinned'],
      ['AMBIT_TRUST_LEVEL', 'injected'],
    ]) {
      expect(stdout).toMatch(new RegExp(`^recorder +${name} +${from}$`, 'm'));
    }
    expect(stdout).not.toContain('sk-secret');
    expect(stdout).not.toContain('ambs_');
  });

  test('--explain --json gives the same as data beside mcpServers', async () => {
    const { mcpServers, servers } = await json<SessionServers>('resolve', '--session', 'free', '--explain');
    expect(servers.filter(({ available }) => available).map(({ name }) => name)).toEqual(Object.keys(mcpServers));
    const out = servers.flatMap((each) => (each.available ? [] : [[each.name, each.rule]]));
    expect(Object.fromEntries(out)).toEqual({
      [`${'long-'.repeat(7)}name`]: `servers.${'long-'.repeat(7)}name.trust`,
      off: 'servers.off.disabled',
      hidden: 'workspaces.garden.capabilities.servers',
      theirs: 'session.servers',
    });
  });

  test('--via gateway prints addresses with a further token of that session, which works', async () => {
    const { mcpServers } = await json<SessionServers>('resolve', '--session', 'free', '--via', 'gateway');
    const { url, headers, type } = mcpServers['recorder'] as Reached;
    expect({ type, url }).toEqual({ type: 'http', url: `${gateway.url}/mcp/recorder` });
    const token = headers['Authorization']?.replace('Bearer ', '') ?? '';
    const told = JSON.parse(await readToolText(callModern(url, token, 'environment', '{}'))) as Record<string, string>;
    expect(told['AMBIT_SESSION_ID']).toBe(token.split('_')[1]);
    expect(told).toMatchObject({ AMBIT_USER_ID: 'ada', AMBIT_TRUST_LEVEL: 'direct' });
    const own = mcpServers['ambit'] as Reached;
    expect(await readToolText(callModern(own.url, token, 'session_info', '{"session":"current"}'))).toContain('free');
    // The words of the last calls are for people only.
    const shown = await ambit('session', 'show', 'free');
    expect(shown.stdout).toMatch(/\n\nCALLED +SERVER.*\n\d+s ago +ambit +tools\/call +session_info +ok/);
    expect(await json('session', 'show', 'free')).not.toHaveProperty('calls');
  });

  test('needs a session that is there', async () => {
    expect((await ambit('resolve')).code).toBe(2);
    expect((await ambit('resolve', '--session', 'free', '--via', 'elsewhere')).code).toBe(2);
    const { code, stderr } = await ambit('resolve', '--session', 'nobody');
    expect([code, stderr]).toEqual([1, expect.stringContaining('SESSION_NOT_FOUND')]);
  });
});

test('P15: ambit run --session has the bounds of that session, says so at debug, follows it and ends with it', async () => {
  const { id } = await json<{ id: string }>('session', 'create', '--trust', 'direct', '--user', 'bob', '--agent', 'a1');
  const run = [join(repository, 'bin/ambit.js'), 'run', '--session', id, '--log-level', 'debug'];
  const args = [...run, ...places, '--', process.execPath, recorder];
  const child = spawn(process.execPath, args, { stdio: 'pipe', env: { ...process.env, PATH: pathWithoutBwrap } });
  const words = text(child.stderr);
  const exited = once(child, 'exit');
  const clientInfo = { name: 'x', version: '1' };
  const hello = { protocolVersion: '2025-11-25', capabilities: {}, clientInfo };
  const lines = createInterface({ input: child.stdout });
  const answered = once(lines, 'line');
  child.stdin.write(`${JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'initialize', params: hello })}\n`);
  await answered;
  const reported = once(lines, 'line');
  child.stdin.write(`${JSON.stringify({ jsonrpc: '2.0', id: 2, method: 'tools/call', params: environment })}\n`);
  const told = JSON.parse(wordsOf(((await reported) as [string])[0])) as Record<string, string>;
  expect(told).toMatchObject({
    AMBIT_SESSION_ID: id,
    AMBIT_USER_ID: 'bob',
    AMBIT_AGENT_ID: 'a1',
    AMBIT_WORKSPACE_ID: '',
    AMBIT_TRUST_LEVEL: 'direct',
  });
  expect((await ambit('session', 'restrict', id, '--trust', 'sandboxed')).code).toBe(0);
  // It looks every second.
  const refused = () => {
    const next = once(lines, 'line') as Promise<[string]>;
    child.stdin.write(`${JSON.stringify({ jsonrpc: '2.0', id: 3, method: 'tools/call', params: environment })}\n`);
    return next.then(([line]) => wordsOf(line).includes('SANDBOX_UNAVAILABLE'));
  };
  while (!(await refused())) await pause(50);
  expect((await ambit('session', 'end', id)).code).toBe(0);
  expect(await exited).toEqual([0, null]);
  const line = `ambit: context injected: server=stdio session=${id.slice(0, 8)} workspace=(none) trust=`;
  const injections = (await words).split('\n').filter((each) => each.includes('context injected'));
  expect(injections[0]).toBe(`${line}direct`);
  expect([...new Set(injections.slice(1))]).toEqual([`${line}sandboxed`]);
  expect((await ambitInProcess(['run', '--session', 'free', '--trust', 'direct', ...places, '--', 'node'])).code).toBe(
    2,
  );
});

test('P14: session create --server and session restrict, from the command line', async () => {
  const wrong = await ambit('session', 'create', '--server', 'recoder');
  expect([wrong.code, wrong.stderr]).toEqual([1, expect.stringContaining('did you mean "recorder"?')]);
  const create = ['session', 'create', '--name', 'narrow', '--server', 'recorder', '--server', 'web'];
  expect(await json(...create, '--trust', 'direct')).toMatchObject({
    servers: ['recorder', 'web'],
    permissions: [],
  });
  const narrow = ['session', 'restrict', 'narrow'];
  expect((await ambit(...narrow, '--server', 'recorder', '--trust', 'sandboxed', '--ttl', '60')).stdout).toMatch(
    /^trust +sandboxed\nservers +recorder$/m,
  );
  for (const wider of [['--trust', 'direct'], ['--ttl', '61'], ['--server', 'web'], []]) {
    expect((await ambit(...narrow, ...wider)).code).toBe(1);
  }
  expect(await json('session', 'show', 'narrow')).toMatchObject({
    trustLevel: 'sandboxed',
    servers: ['recorder'],
    ttlSeconds: 60,
  });
});
