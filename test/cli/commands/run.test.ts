import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { text } from 'node:stream/consumers';
import { afterAll, describe, expect, test } from 'vitest';
import { deriveServerName } from '../../../src/cli/commands/run.ts';
import { loadConfig } from '../../../src/config/load/load.ts';
import { openGateway } from '../../../src/gateway/assembly/open-gateway.ts';
import { initializeRequest, type RpcMessage } from '../../journeys/json-mcp-client.ts';
import { spawnRun } from '../../journeys/start-ambit.ts';
import { proof } from '../../proof.ts';
import { repository } from '../../structure/source-files.ts';

const script = join(repository, 'test/fixtures/reloaded/server.js');
const folder = mkdtempSync(join(tmpdir(), 'ambit-credential-run-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** The answer of a wrapped server to one call. */
async function runWrapped(args: readonly string[], name = 'notes'): Promise<string> {
  const run = [join(repository, 'bin/ambit.js'), 'run', '--name', name, '--trust', 'direct'];
  const places = ['--config', join(folder, 'ambit.json'), '--data-dir', join(folder, 'data')];
  const child = spawn(process.execPath, [...run, ...places, '--', ...args]);
  const say = (message: object) => child.stdin.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`);
  const clientInfo = { name: 'raw', version: '1' };
  say({ id: 1, method: 'initialize', params: { protocolVersion: '2025-11-25', capabilities: {}, clientInfo } });
  for await (const line of createInterface({ input: child.stdout })) {
    const { id, result } = JSON.parse(line) as { id?: number; result?: { content?: { text: string }[] } };
    if (id === 1) say({ method: 'notifications/initialized' });
    if (id === 1) say({ id: 2, method: 'tools/call', params: { name: 'mark', arguments: {} } });
    if (id !== 2) continue;
    child.stdin.end();
    await new Promise((resolve) => child.once('exit', resolve));
    return result?.content?.[0]?.text ?? line;
  }
  throw new Error('it did not answer');
}

test('a wrapped server finds the credential by itself; another command, or one not approved, finds none', async () => {
  const file = join(folder, 'ambit.json');
  const server = { command: process.execPath, args: [script] };
  writeFileSync(file, JSON.stringify({ version: 1, include: ['.mcp.json'], servers: { notes: server } }));
  writeFileSync(join(folder, '.mcp.json'), JSON.stringify({ mcpServers: { project: server } }));
  const { config } = await loadConfig({ file });
  const places = { configFile: file, dataDir: join(folder, 'data') };
  const stored = await openGateway({ ...places, config, log: { info() {}, warn() {} } });
  for (const name of ['notes', 'project']) {
    await stored.credentials.set({ userId: 'local', server: name, env: 'MARK' }, 'own');
  }
  await stored.close();
  expect(await runWrapped([process.execPath, script])).toBe('own');
  expect(await runWrapped([process.execPath, '--no-warnings', script])).toBe('');
  expect(await runWrapped([process.execPath, script], 'project')).toBe('');
});

test.each([
  ['uvx mcp-server-time', 'mcp-server-time'],
  ['uvx mcp-server-fetch[all]==1.2 --x', 'mcp-server-fetch'],
  ['uvx --from git+https://h.test/x/y.git mcp-y', 'mcp-y'],
  ['uvx --python 3.12 mcp-server-time@latest', 'mcp-server-time'],
  ['npx -y @modelcontextprotocol/server-everything', 'server-everything'],
  ['/usr/bin/npx -y @x/notes@1.2.3 stdio', 'notes'],
  ['npx -p @x/y notes', 'notes'],
  ['npm exec -- notes', 'notes'],
  ['bunx notes', 'notes'],
  ['node notes.js', 'notes'],
  ['node --import tsx/esm src/notes.ts', 'notes'],
  ['node /srv/notes/dist/index.js', 'notes'],
  ['python -m my_server', 'my-server'],
  ['python3.12 -u -m my.server', 'my-server'],
  ['python server.py', 'server'],
  ['uv run --directory /srv server.py', 'server'],
  ['node -e 1', 'node'],
  ['npx', 'npx'],
  ['/opt/Notes.exe', 'notes'],
  [`npx ${'long-name-'.repeat(8)}`, 'long-name-long-name-long-name-long-name'],
  ['ambit', 'server'],
])('the name of a server without --name: %s', (line, name) => {
  const [command = '', ...args] = line.split(' ');
  expect(deriveServerName(command, args)).toBe(name);
});

describe('a server that does not start', () => {
  /** Runs a command; the client leaves at once, asks and stays, or asks and leaves. */
  async function runFailing(
    server: readonly string[],
    client: 'leaves' | 'asks' | 'asks and leaves',
    flags: string[] = [],
  ) {
    const child = spawnRun(folder, server, { flags: ['--trust', 'direct', ...flags] });
    const output = Promise.all([text(child.stdout), text(child.stderr)]);
    const exited = new Promise((resolve) => child.once('exit', resolve));
    if (client !== 'leaves') child.stdin.write(`${JSON.stringify(initializeRequest())}\n`);
    if (client !== 'asks') child.stdin.end();
    const [stdout, stderr] = await output;
    const answer = stdout === '' ? undefined : (JSON.parse(stdout) as RpcMessage);
    return { code: await exited, answer: answer?.error?.message, stderr };
  }
  const node = (code: string) => [process.execPath, '-e', code];

  test.each(['leaves', ...(proof ? (['asks', 'asks and leaves'] as const) : [])] as const)(
    'exits 1 when there is no command: the client %s',
    async (client) => {
      const { code, answer, stderr } = await runFailing(['no-such-command'], client);
      expect(code).toBe(1);
      const what = 'The command "no-such-command" was not found on the PATH.';
      expect(stderr).toMatch(new RegExp(`^ambit: UPSTREAM_FAILED: .*${what}$`, 'm'));
      expect(stderr).not.toContain('    at ');
      if (client === 'leaves') expect(answer).toBeUndefined();
      else expect(answer).toContain(what);
    },
  );

  test('exits 1 when it ends at once, though the client stays; its stderr is printed as it is', async () => {
    const { code, answer, stderr } = await runFailing(
      node('console.error("\\x1b[1mstarting\\n  password=hunter22");console.error("Error: no key");process.exit(2)'),
      'asks',
    );
    expect(code).toBe(1);
    expect(answer).toContain(
      'The server "node" ended with code 2 before it answered. It wrote to stderr: "Error: no key".',
    );
    expect(stderr.split('\n')).toEqual([
      'starting',
      '  password=[secret]',
      'Error: no key',
      'ambit: UPSTREAM_FAILED: The server "node" ended with code 2 before it answered.',
      'ambit: Its own messages are above.',
      '',
    ]);
  });

  test.runIf(proof)('with logs as JSON its lines are events', async () => {
    const { stderr } = await runFailing(node('console.error("Error: no key");process.exit(2)'), 'asks', [
      '--log-format',
      'json',
    ]);
    const events = stderr.split('\n').flatMap((line) => (line.startsWith('{') ? [JSON.parse(line) as object] : []));
    expect(events).toMatchObject([
      { event: 'server stderr', level: 'info', server: 'node', line: 'Error: no key' },
      { event: 'server not started', level: 'warn', server: 'node' },
    ]);
  });
});

/** A client whose handshake is done. */
async function connectRun(server: readonly string[]) {
  const child = spawnRun(folder, server);
  const exited = new Promise((resolve) => child.once('exit', resolve));
  const answers = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const ask = async (message: object) => {
    child.stdin.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`);
    return JSON.parse((await answers.next()).value as string) as RpcMessage;
  };
  const said = text(child.stderr);
  await ask(initializeRequest());
  child.stdin.write('{"jsonrpc":"2.0","method":"notifications/initialized"}\n');
  return { child, ask, exited, said };
}

test('a client that closes the stderr of run is served on', async () => {
  const talking = `require('node:readline').createInterface({ input: process.stdin }).on('line', (line) => {
    const { id, method, params } = JSON.parse(line);
    console.error('heard ' + method);
    const known = { protocolVersion: params?.protocolVersion, capabilities: {}, serverInfo: { name: 'x', version: '1' } };
    if (id !== undefined) console.log(JSON.stringify({ jsonrpc: '2.0', id, result: method === 'initialize' ? known : {} }));
  });`;
  const { child, ask, exited, said } = await connectRun([process.execPath, '-e', talking]);
  said.catch(() => {});
  child.stderr.destroy();
  for (const id of [2, 3, 4]) expect(await ask({ id, method: 'ping' })).toMatchObject({ id, result: {} });
  child.stdin.end();
  expect(await exited).toBe(0);
});

test('a server that worked and crashed is started again by the next call, and run exits 0', async () => {
  const { child, ask, exited, said } = await connectRun([process.execPath, script]);
  const crash = await ask({ id: 2, method: 'tools/call', params: { name: 'crash', arguments: {} } });
  expect(crash.result?.content?.[0]?.text).toContain('ended with code 1 before it answered.');
  const again = await ask({ id: 3, method: 'tools/call', params: { name: 'mark', arguments: {} } });
  expect(again.result?.isError).toBeUndefined();
  child.stdin.end();
  expect(await exited).toBe(0);
  expect((await said).match(/^ambit: server .*/gm)).toEqual([
    expect.stringContaining('ambit: server lost: server=server '),
  ]);
});
