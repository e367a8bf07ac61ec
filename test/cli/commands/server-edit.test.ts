import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { loadConfig } from '../../../src/config/load/load.ts';
import { registerGateway } from '../../../src/entrances/control/gateway-registry.ts';
import { createApprovals } from '../../../src/upstreams/pins/approvals.ts';
import { ambitInProcess } from '../in-process.ts';

let home: string;
const folder = process.cwd();
const at = (...names: string[]) => join(home, ...names);
const configFile = () => at('etc/ambit.yaml');
const commented = `# my gateway
version: 1
include: [../shop/.mcp.json]
servers:
  # the notes of the team
  notes: { command: node, env: { KEY: sk-secret }, imported: cursor } # keep
  # the tracker
  tracker:
    command: node
rules:
  - { id: no-writes, deny: "notes__write_*" }
workspaces:
  # where we work
  shop: { path: ../shop, capabilities: { servers: [notes, tracker] } }
`;

beforeEach(() => {
  home = realpathSync(mkdtempSync(join(tmpdir(), 'ambit-edit-')));
  write('etc/ambit.yaml', commented);
  write('shop/.mcp.json', '{"mcpServers":{"site":{"command":"node"}}}');
});
afterEach(() => {
  process.chdir(folder);
  rmSync(home, { recursive: true, force: true });
});

function write(path: string, text: string): string {
  mkdirSync(dirname(at(path)), { recursive: true, mode: 0o700 });
  writeFileSync(at(path), text);
  return at(path);
}

const ambit = (args: readonly string[], rest: readonly string[] = [], env: NodeJS.ProcessEnv = {}) =>
  ambitInProcess(
    [...args, '--config', configFile(), '--data-dir', at('data'), ...(rest.length === 0 ? [] : ['--', ...rest])],
    env,
  );
const readText = () => readFileSync(configFile(), 'utf8');
const readServer = async (name: string) => (await loadConfig({ file: configFile() })).config.servers[name];

describe('ambit server add', () => {
  test('writes what was typed, names of files in full, and touches no other line', async () => {
    write('here/notes.mjs', '');
    process.chdir(at('here'));
    const { code, stdout, stderr } = await ambit(
      ['server', 'add', 'mine', '--env', 'API_KEY', '--env', 'MODE=a=b'],
      ['node', './notes.mjs', '.', '--flag', './gone.mjs'],
      { API_KEY: 'sk-hidden' },
    );
    expect({ code, stdout }).toEqual({ code: 0, stdout: 'Added: mine.\n' });
    expect(await readServer('mine')).toMatchObject({
      ...{ source: 'operator', command: 'node', env: { API_KEY: 'sk-hidden', MODE: 'a=b' } },
      args: [at('here/notes.mjs'), '.', '--flag', './gone.mjs'],
    });
    const [head, tail] = commented.split('rules:') as [string, string];
    expect(readText().startsWith(`${head}  mine:\n`)).toBe(true);
    expect(readText().endsWith(`rules:${tail}`)).toBe(true);
    expect(stderr).toContain(`${configFile()}:\n+   mine:\n+     command: node\n`);
    expect(stderr).toContain('+       API_KEY: …\n+       MODE: a=b\n');
    expect(stderr).toContain('Warning: there is no ./gone.mjs here.');
    expect(stderr).not.toContain('sk-hidden');
    expect(stderr).toContain('Try it: ambit server check mine\n');
    expect(statSync(configFile()).mode & 0o777).toBe(0o600);
    const backup = readdirSync(at('etc')).find((name) => name.endsWith('.backup'));
    expect(readFileSync(at('etc', backup as string), 'utf8')).toBe(commented);
  });

  test('an address with a header; a program that is not there is only a warning', async () => {
    await ambit([
      'server',
      'add',
      'web',
      '--url',
      'https://h/mcp',
      '--header',
      'Authorization=Bearer sk-hidden',
      '--json',
    ]);
    expect(await readServer('web')).toMatchObject({
      url: 'https://h/mcp',
      headers: { Authorization: 'Bearer sk-hidden' },
    });
    const { code, stderr } = await ambit(['server', 'add', 'odd'], ['no-such-program', 'x']);
    expect(code).toBe(0);
    expect(stderr).toContain('Warning: no-such-program: there is no such program on PATH.');
  });

  test('makes a configuration where there is none', async () => {
    rmSync(at('etc'), { recursive: true });
    const { code, stderr } = await ambit(['server', 'add', 'mine'], ['node', '-v']);
    expect(code).toBe(0);
    expect(stderr).toContain(`Created ${configFile()}`);
    expect([statSync(configFile()).mode & 0o777, statSync(at('etc')).mode & 0o777]).toEqual([0o600, 0o700]);
    expect(await readServer('mine')).toMatchObject({ args: ['-v'] });
  });

  test.each<[string, string[], string[], number, string, string]>([
    ['a name that is taken', ['notes'], ['node'], 1, 'a server "notes" already', 'ambit server remove notes'],
    ['one of an included file', ['site'], ['node'], 1, 'shop/.mcp.json, which', 'Choose another name'],
    ['an invalid name', ['My_Notes'], ['node'], 2, '"My_Notes" is not valid', 'Call it "my-notes"'],
    ['a reserved name', ['ambit'], ['node'], 2, 'is reserved', 'ambit help'],
    ['no command', ['x'], [], 2, 'give one of', 'ambit help'],
    ['both', ['x', '--url', 'https://h'], ['node'], 2, 'give one of', 'ambit help'],
    ['no dashes', ['x', 'npx', '-y', 'some'], [], 2, '"--" is missing before "npx"', 'add x -- npx -y some'],
    ['an unset variable', ['x', '--env', 'NO_SUCH_VARIABLE'], ['node'], 2, 'no such variable', '=VALUE'],
    ['a header for a command', ['x', '--header', 'A=b'], ['node'], 2, '--header goes with --url', 'ambit help'],
    ['a variable for a URL', ['x', '--env', 'A=b', '--url', 'https://h'], [], 2, '--env goes with a command', ''],
    ['no URL', ['x', '--url', 'h.example/mcp'], [], 2, 'starts with http://', 'ambit help'],
  ])('%s is refused', async (_, args, rest, code, message, hint) => {
    const [name, ...flags] = args;
    // Global flags would be read as a part of a command that "--" is missing before.
    const outcome = await ambit(['server', 'add', name as string, ...flags], rest);
    expect(outcome).toMatchObject({ code, stdout: '' });
    expect(outcome.stderr).toContain(message);
    expect(outcome.stderr).toContain(hint);
    expect(readText()).toBe(commented);
  });
});

describe('ambit server remove', () => {
  test('takes the entry and its approval, warns of what still names it, and can be undone', async () => {
    await ambit(['server', 'approve', 'notes', '--yes']);
    const approvals = createApprovals({ dataDir: at('data') });
    expect(approvals.list()).toHaveLength(1);
    const { code, stdout, stderr } = await ambit(['server', 'remove', 'notes']);
    expect({ code, stdout }).toEqual({ code: 0, stdout: 'Removed: notes.\n' });
    expect(readText()).toBe(commented.replace(/ {2}# the notes.*\n.*\n/, ''));
    expect(stderr).toContain('-       KEY: …\n');
    expect(stderr).not.toContain('sk-secret');
    expect(stderr).toContain('workspaces.shop.capabilities.servers[0]: there is no server "notes"');
    expect(stderr).toContain('"notes__write_*" matches no tool');
    expect(stderr).not.toContain('running gateway');
    expect(approvals.list()).toEqual([]);
    expect((await ambit(['import', '--undo', '--yes'])).code).toBe(0);
    expect(readText()).toBe(commented);
  });

  test('a server of an included file stays, and is named where it takes the place', async () => {
    const refused = await ambit(['server', 'remove', 'site']);
    expect(refused.code).toBe(1);
    expect(refused.stderr).toContain(`"site" is declared in ${at('shop/.mcp.json')}`);
    expect(await ambit(['server', 'remove', 'note'])).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('did you mean "notes"?'),
    });
    expect(readText()).toBe(commented);
    writeFileSync(configFile(), commented.replace('tracker:', 'site:').replace(', tracker', ''));
    expect((await ambit(['server', 'remove', 'site'])).stderr).toContain('"site" is now the server of');
  });
});

test('says that a running gateway reads the change', async () => {
  mkdirSync(at('run'), { mode: 0o700 });
  const socket = createServer().listen(at('control.sock'));
  const places = { env: { XDG_RUNTIME_DIR: at('run') }, home };
  const entry = await registerGateway(
    { configFile: configFile(), dataDir: at('data'), socket: at('control.sock') },
    places,
  );
  try {
    const { stderr } = await ambit(['server', 'add', 'mine'], ['node'], places.env);
    expect(stderr).toContain('The running gateway reloads it.\n');
  } finally {
    entry.remove();
    socket.close();
  }
});
