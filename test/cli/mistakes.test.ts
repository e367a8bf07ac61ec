import { execFile } from 'node:child_process';
import { copyFileSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { ambitBin } from '../journeys/start-ambit.ts';
import { ambitInProcess, splitWords } from './in-process.ts';

/**
 * The mistakes of newcomers. Each has an exit code (1: refused or failed, 2: wrong usage), a message of one line, a hint
 * in the lines below, and no stack trace.
 */
const folder = mkdtempSync(join(tmpdir(), 'ambit-mistakes-'));
const at = (name: string) => join(folder, name);
/** The port of another program. */
const other = createServer();

const files: Readonly<Record<string, string>> = {
  'good.yaml': 'version: 1\nservers: { notes: { command: cat } }\nworkspaces: { garden: { path: garden } }\n',
  'broken.json': 'nothing like JSON',
  'empty.json': '{}',
  'claude.json': '{"mcpServers": {"fs": {"command": "npx", "args": ["-y", "fs"]}}}',
  'vscode.json': '{"servers": {"fs": {"type": "stdio", "command": "npx"}}, "inputs": []}',
  'settings.json': '{"mcp": {"servers": {"fs": {"command": "npx"}}}}',
  afile: '',
};

let ended = '';
beforeAll(async () => {
  mkdirSync(at('garden'));
  for (const [name, text] of Object.entries(files)) writeFileSync(at(name), text);
  symlinkSync('nowhere', at('dangling'));
  await new Promise<void>((resolve) => other.listen(0, '127.0.0.1', resolve));
  const created = await ambit('session create --name task-49 --json');
  ended = (JSON.parse(created.stdout) as { id: string }).id;
  await ambit(`session end ${ended}`);
  await ambit('session create --name build-docs');
  await ambit('user add ann');
});
afterAll(() => {
  other.close();
  rmSync(folder, { recursive: true });
});

/** Commands that serve listen for signals, also where they fail. */
const signals = ['SIGTERM', 'SIGINT', 'SIGHUP', 'error'] as unknown as readonly ['SIGTERM'];
const heard = signals.map((signal) => process.listeners(signal));
function removeListeners(): void {
  for (const [i, signal] of signals.entries()) {
    for (const listener of process.listeners(signal)) if (!heard[i]?.includes(listener)) process.off(signal, listener);
  }
}

function ambit(line: string, config = 'good.yaml', data = 'data') {
  const places = ['--config', at(config), '--data-dir', data.startsWith('/') ? data : at(data)];
  const [own, passed] = line.split(' -- ') as [string, string?];
  const rest = passed === undefined ? [] : ['--', ...splitWords(passed)];
  return ambitInProcess([...splitWords(own), ...places, ...rest]).finally(removeListeners);
}

interface Outcome {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

function expectHelp({ code, stdout, stderr }: Outcome, expected: number, message: string, hint: string): void {
  // A command that uses the store itself names it first.
  const [first = '', ...more] = stderr
    .replace(/^ambit: no gateway is running.*\n/, '')
    .trimEnd()
    .split('\n');
  expect({ code, stdout, first, more }).toEqual({
    code: expected,
    stdout: '',
    first: expect.stringContaining(message),
    more: expect.any(Array),
  });
  expect(more.join('\n')).toContain(hint);
  expect(stderr.split('\n').filter((line) => line !== '' && !line.startsWith('ambit: '))).toEqual([]);
  expect(stderr).not.toMatch(/^ambit: +at |node:internal|INTERNAL|undefined|\[object/m);
}

const trustTakers = ['stdio', 'run', 'session create', 'session restrict build-docs', 'key create --user ann'];

describe('on the command line', () => {
  test.each([
    ['sevre', 'unknown command "sevre"; did you mean "serve"?', 'ambit help'],
    ['sessoin list', 'unknown command "sessoin"; did you mean "session"?', 'ambit help'],
    ['servr list', 'unknown command "servr"; did you mean "server"?', 'ambit help'],
    ['session lst', 'unknown command "session lst"; did you mean "session list"?', 'ambit help session'],
    ['session --json', '"ambit session" needs a subcommand', 'Subcommands: create, list'],
    ['help srever', 'unknown command "srever"; did you mean "server"?', 'ambit help'],
    ['help session lst', 'unknown command "session lst"; did you mean "session list"?', 'ambit help session'],
    ['serve --prot 1', 'unknown flag "--prot"; did you mean "--port"?', 'ambit help serve'],
    ['session create --wrokspace x', 'unknown flag "--wrokspace"; did you mean "--workspace"?', 'help session create'],
    ['serve now', 'unexpected argument "now"', 'ambit help serve'],
    ['serve --port abc', '--port takes a number', 'ambit help serve'],
    ['serve --port 99999', '--port takes a number', 'ambit help serve'],
    ['serve --log-level loud', '--log-level takes "debug", "info" or "warn"', 'ambit help serve'],
    ['run npx some-server', '"--" is missing before "npx"', 'ambit run -- npx some-server'],
    ['run --trust direct npx -y some', '"--" is missing before "npx"', 'ambit run --trust direct -- npx -y some'],
    ['run', 'the command to run is missing', 'ambit run -- CMD ARGS…'],
    [
      'run --env NO_SUCH_VARIABLE -- cat',
      '--env NO_SUCH_VARIABLE: this environment variable is not set',
      'ambit help run',
    ],
    ['run --name My_Server -- cat', '--name takes 1 to 40 characters of a-z', 'ambit help run'],
    ['session create --ttl 0', '--ttl takes a whole number of seconds', 'ambit help session create'],
    ['session create --ttl 1h', '--ttl takes a whole number of seconds', 'ambit help session create'],
    ['session create --meta colour', '--meta takes KEY=VALUE', 'ambit help session create'],
    ['session show', 'ID is missing', 'ambit help session show'],
    ["session end ''", 'ID is empty', 'ambit help session end'],
    ['session show ambs_0123456789abcdef_c2VjcmV0', 'a token is a secret', '0123456789abcdef'],
    ['resolve', '--session ID is missing', 'ambit help resolve'],
    ['policy add --scope org --mode prepend text', '--name NAME is missing', 'ambit help policy add'],
    ['key create --user ann --expires tomorrow', '"tomorrow" is not a valid time', 'or a date such as'],
    ['completion', 'SHELL is missing', 'ambit help completion'],
    ['completion bsh', 'SHELL takes "bash", "zsh" or "fish", not "bsh"; did you mean "bash"?', 'help completion'],
    ...trustTakers.map((command) => [
      `${command} --trust sandbox`,
      '--trust takes "direct" or "sandboxed", not "sandbox"; did you mean "sandboxed"?',
      `ambit help ${command.replace(/ (?:--user|build).*/, '')}`,
    ]),
    ["session list --data-dir ''", 'the given one is empty', 'ambit help session list'],
  ])('ambit %s', async (line, message, hint) => {
    const outcome = await (line.includes('--data-dir') ? ambitInProcess(splitWords(line)) : ambit(line));
    expectHelp(outcome, 2, message, hint);
    expect(outcome.stderr).not.toContain('c2VjcmV0');
  });
});

describe('in names', () => {
  test.each([
    ['session create --workspace gardn', 'no workspace "gardn"; did you mean "garden"?', 'ambit workspace list'],
    ['stdio --workspace gardn', 'no workspace "gardn"; did you mean "garden"?', 'ambit workspace list'],
    ['workspace show gardn', 'no workspace "gardn"; did you mean "garden"?', 'ambit workspace list'],
    ['session create --server note', 'no server "note"; did you mean "notes"?', 'ambit server list'],
    ['server check note', 'no enabled server "note"; did you mean "notes"?', 'ambit server list'],
    ['server approve note', 'no enabled server "note"; did you mean "notes"?', 'ambit server list'],
    [
      'session show build-dcos',
      'no live session with that id or name; did you mean "build-docs"?',
      'ambit session list',
    ],
    ['session end 0000', 'no live session', 'ambit session list'],
    ['explain --session 0000 --tool x', 'no live session', 'ambit session list'],
    ['stdio --session 0000', 'no such session', 'ambit session list'],
    ['user remove an', 'no user "an"; did you mean "ann"?', 'ambit user list'],
    ['key create --user anne', 'no user "anne"; did you mean "ann"?', 'ambit user add'],
    ['key revoke abc', 'no such key', 'ambit key list'],
    ['session restrict build-docs --trust direct', 'cannot be made "direct"', 'can only be restricted'],
    ["policy add --scope orgs --name x --mode prepend 'be kind'", '"org", "team:NAME"', 'Correct the request'],
    ['login notes --user ann', 'is a local process', 'Correct the request'],
    ['import missing.json', 'there is no such file', '"mcpServers"'],
    ['import broken.json', 'not valid JSON', '"mcpServers"'],
    ['import empty.json', 'no "mcpServers" or "servers" object', '"mcpServers"'],
    ['import --undo', 'no backup', 'ambit import'],
  ])('ambit %s', async (line, message, hint) => {
    expectHelp(await ambit(line.replace(/(\w+\.json)/, at('$1'))), 1, message, hint);
  });

  test('an ended session is gone', async () => {
    expectHelp(await ambit(`session restrict ${ended} --ttl 5`), 1, 'no live session', 'ambit session list');
  });
});

describe('in the configuration', () => {
  test.each([
    [
      'version: 1\nservers:\n\tnotes: {}\n',
      '3:1 not valid YAML: tabs cannot be used for indentation',
      'Correct the lines',
    ],
    [
      'version: 1\nservers:\n  a:\n   command: x\n  command: y\n',
      'servers.command: expected a map',
      'Correct the lines',
    ],
    ['version: 1\nversion: 1\n', 'duplicate key', 'Correct the lines'],
    ['{"version": 1,\n  // my servers\n  "servers": {}}', 'a comment starts with "#" here', 'Correct the lines'],
    ['version: 1\nserver: {}\n', 'server: unknown key; did you mean "servers"?', 'Correct the lines'],
    ['servers: {}\n', 'version: missing; expected 1', 'Correct the lines'],
    ['version: 1\nservers: { a: {} }\n', 'needs a command to start, or a url', 'Correct the lines'],
    [
      'version: 1\nservers: { a: { command: x, url: "http://x" } }\n',
      'command and url cannot be used together',
      'Correct the lines',
    ],
    ['version: 1\nservers: { My_Notes: { command: x } }\n', 'a server name has', 'Correct the lines'],
    ['version: 1\nservers: { a: { command: x, trust: sandboxd } }\n', 'did you mean "sandboxed"?', 'Correct the lines'],
    ['version: 1\nservers: { a: { command: x, args: y.js } }\n', 'expected a list', 'Correct the lines'],
    ['version: 1\nservers: { a: { command: x, env: { PORT: 80 } } }\n', 'put it in quotes', 'Correct the lines'],
    ['version: 1\nservers: { a: { url: example.com/mcp } }\n', 'starts with http://', 'Correct the lines'],
    ['version: 1\nlisten: { port: 80000 }\n', 'at most 65535', 'Correct the lines'],
    ['version: 1\nlisten: { host: 0.0.0.0 }\n', 'not loopback', 'Correct the lines'],
    ['version: 1\nlisten: { tls: { cert: a, key: b } }\n', 'listen.tls', 'Correct the lines'],
    ['version: 1\nstore: { kind: postgres }\n', '"memory", "sqlite" or "redis"', 'Correct the lines'],
    ['version: 1\nworkspaces: { w: { path: gardne } }\n', 'garden?', 'create: true'],
    ['version: 1\nworkspaces: { w: { path: afile } }\n', 'is not a folder', 'create the folder'],
    ['version: 1\nworkspaces: { w: { path: . } }\n', 'is inside the workspace "w"', 'outside of every workspace'],
    ['version: 1\nworkspaces: { w: { path: data/w } }\n', 'is inside the data directory', 'outside of every workspace'],
  ])('%j', async (text, message, hint) => {
    writeFileSync(at('wrong.yaml'), text);
    expectHelp(await ambit('serve --port 0', 'wrong.yaml'), 1, message, hint);
  });

  test.each(['claude.json', 'vscode.json', 'settings.json'])('%s is the file of another client', async (name) => {
    const outcome = await ambit('serve --port 0', name);
    expectHelp(outcome, 1, 'server list of another MCP client', `ambit import ${at(name)}`);
    expect(outcome.stderr).toContain('include:');
  });

  test.each([
    ['missing.yaml', 'There is no configuration at', '--config FILE'],
    ['garden', 'it is not a regular file', '--config FILE'],
  ])('%s is none', async (name, message, hint) => {
    expectHelp(await ambit('serve --port 0', name), 1, message, hint);
  });

  test('a store that does not answer, and an included file that is not there', async () => {
    writeFileSync(at('redis.yaml'), 'version: 1\nstore: { kind: redis, redis: { url: "redis://127.0.0.1:1" } }\n');
    expectHelp(await ambit('session list', 'redis.yaml'), 1, 'The session store cannot be reached', 'ambit doctor');
    writeFileSync(at('include.yaml'), 'version: 1\ninclude: [nothing.json]\n');
    const { code, stderr } = await ambit('server list', 'include.yaml');
    expect({ code, stderr }).toEqual({
      code: 0,
      stderr: expect.stringContaining('nothing.json: there is no such file'),
    });
  });
});

describe('in the machine', () => {
  test.each([
    ['afile', 'is not a folder'],
    ['afile/x', 'not a folder'],
    ['dangling', 'a broken symbolic link'],
    ['x'.repeat(300), 'the name is too long'],
    ['/proc/x', 'nothing can be created there'],
    ['/dev/null', 'is not a folder'],
    ['/etc', 'cannot be kept private'],
  ])('a data directory at %s', async (data, message) => {
    for (const command of ['serve --port 0', 'stdio', 'run -- cat', 'session list', 'session create', 'user add bob']) {
      expectHelp(await ambit(command, 'good.yaml', data), 1, message, '--data-dir');
    }
  });

  test('a port that is taken', async () => {
    const { port } = other.address() as { port: number };
    const outcome = await ambit(`serve --port ${port} --log-level warn`);
    expectHelp(outcome, 1, `cannot listen on 127.0.0.1:${port}: another program uses this port`, '--port');
  });

  test('an old Node, and a checkout that is not built', async () => {
    const old = "Object.defineProperty(process, 'versions', { value: { ...process.versions, node: '20.18.3' } })";
    writeFileSync(at('old.cjs'), old);
    mkdirSync(at('bin'));
    copyFileSync(ambitBin, at('bin/ambit.js'));
    writeFileSync(at('package.json'), '{"type": "module"}');
    const run = (...args: string[]) =>
      new Promise<Outcome>((resolve) => {
        const child = execFile(process.execPath, args, (_, stdout, stderr) => {
          resolve({ code: child.exitCode, stdout, stderr });
        });
      });
    const [outdated, unbuilt] = await Promise.all([
      run('-r', at('old.cjs'), ambitBin, 'doctor'),
      run(at('bin/ambit.js'), 'doctor'),
    ]);
    expectHelp(outdated, 1, 'Ambit needs Node 20.19 or newer. This is Node 20.18.3', 'https://nodejs.org');
    expectHelp(unbuilt, 1, 'A file of Ambit is missing', 'npm ci');
  });

  test('an error that nobody expected is one line, and its stack is there on demand', async () => {
    // An environment holds texts only, so no code expects a number.
    const env = { AMBIT_CONFIG: 5 as unknown as string };
    const { code, stderr } = await ambitInProcess(['session', 'list'], env);
    expect(code).toBe(1);
    expect(stderr).toMatch(/^ambit: INTERNAL: Internal error in Ambit: TypeError: .*\nambit: Please report .*\n$/);
    const debugged = await ambitInProcess(['session', 'list'], { ...env, AMBIT_DEBUG: '1' });
    expect(debugged.stderr).toMatch(/^ambit: +at /m);
  });
});

test('behind "--" an operand may begin with a dash, and no flag is read', async () => {
  const found = await ambit('audit search --json -- --config=/nowhere/at-all.yaml');
  expect({ code: found.code, stdout: found.stdout.trim() }).toEqual({ code: 0, stdout: '' });
  expect(await ambit('session show -- --json')).toMatchObject({ code: 1, stdout: '' });
  expect(await ambit('status -- x')).toMatchObject({ code: 2, stdout: '' });
});
