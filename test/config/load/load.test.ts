import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { homedir, tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, test } from 'vitest';
import { loadConfig } from '../../../src/config/load/load.ts';
import { loadText, problemsOf } from './load-text.ts';

const folders: string[] = [];
afterEach(async () => {
  for (const folder of folders.splice(0)) await rm(folder, { recursive: true });
});
async function fileWith(content: string | Uint8Array, name = 'ambit.yaml'): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'ambit-config-'));
  folders.push(folder);
  await writeFile(join(folder, name), content);
  return join(folder, name);
}

describe('a file', () => {
  test('is read as YAML', async () => {
    const { config, warnings } = await loadConfig({ file: await fileWith('version: 1\nlisten: { port: 1 }\n') });
    expect(config.listen.port).toBe(1);
    expect(warnings).toEqual([]);
  });

  test('is read as JSON, tabs and all', async () => {
    const json = JSON.stringify(
      { version: 1, servers: { a: { command: 'x', args: ['é', '\u2028', '/'] } } },
      null,
      '\t',
    );
    const { config } = await loadConfig({ file: await fileWith(json, 'ambit.json') });
    expect(config.servers['a']).toMatchObject({ command: 'x', args: ['é', '\u2028', '/'] });
  });

  test('may start with a byte order mark and end its lines as Windows does', async () => {
    const { config } = await loadText('\uFEFFversion: 1\r\nlisten:\r\n  port: 1\r\n');
    expect(config.listen.port).toBe(1);
  });

  test.each([
    ['is missing', () => Promise.resolve('/nowhere/ambit.yaml'), /: there is no such file$/],
    ['is a folder', () => Promise.resolve(tmpdir()), /: it is not a regular file$/],
    ['is a device', () => Promise.resolve('/dev/zero'), /: it is not a regular file$/],
    ['is not UTF-8', () => fileWith(Buffer.from([0x76, 0xff, 0xfe])), /: it is not UTF-8 text$/],
    ['is too large', () => fileWith(`version: 1 # ${'x'.repeat(1_048_576)}`), /: it is larger than 1 MiB$/],
  ])('that %s is refused by name', async (_, make, message) => {
    const file = await make();
    await expect(loadConfig({ file })).rejects.toMatchObject({
      code: 'CONFIG_INVALID',
      message: expect.stringMatching(message),
    });
  });

  test('of just 1 MiB is read', async () => {
    const text = 'version: 1 #';
    await expect(loadConfig({ file: await fileWith(text.padEnd(1_048_576, 'x')) })).resolves.toBeDefined();
  });
});

describe('the result', () => {
  test('has its paths resolved against the folder of the file', async () => {
    const { config } = await loadText(
      'version: 1\nworkspaces:\n  a: { path: projects/a }\n  b: { path: ../b }\n  c: { path: ~/c }\n  d: { path: /d }\n  e: { path: "~" }\n',
    );
    expect(Object.values(config.workspaces).map(({ path }) => path)).toEqual([
      '/srv/ambit/projects/a',
      '/srv/b',
      join(homedir(), 'c'),
      '/d',
      homedir(),
    ]);
    const { config: included } = await loadText('version: 1\ninclude: [.mcp.json, /etc/x.json]\n');
    expect(included.include).toEqual(['/srv/ambit/.mcp.json', '/etc/x.json']);
  });

  test('is frozen all the way down', async () => {
    const { config } = await loadText('version: 1\nservers:\n  a: { command: x, args: [y], env: { A: b } }\n');
    const unfrozen: string[] = [];
    const walk = (value: unknown, path: string): void => {
      if (typeof value !== 'object' || value === null) return;
      if (!Object.isFrozen(value)) unfrozen.push(path);
      for (const [key, inner] of Object.entries(value)) walk(inner, `${path}.${key}`);
    };
    walk(config, 'config');
    expect(unfrozen).toEqual([]);
  });

  test('answers only to names that were written', async () => {
    const { config } = await loadText('version: 1\nservers:\n  a: { command: x }\n');
    for (const name of ['constructor', 'toString', '__proto__', 'hasOwnProperty']) {
      expect(config.servers[name]).toBeUndefined();
      expect(config.workspaces[name]).toBeUndefined();
    }
  });

  test('shares what aliases stand for', async () => {
    const { config } = await loadText(
      'version: 1\nservers:\n  a: { command: x, env: &common { A: b } }\n  c: { command: y, env: *common }\n',
    );
    expect(config.servers['c']).toMatchObject({ env: { A: 'b' } });
  });
});

describe('a problem is named', () => {
  test('by line, column, path and suggestion', async () => {
    expect(await problemsOf('version: 1\nservers:\n  notes:\n    command: node\n    scop: session\n')).toEqual([
      'ambit.yaml:5:5 servers.notes.scop: unknown key; did you mean "scope"?',
    ]);
  });

  test('with all the others, in the order of the file', async () => {
    const text = `version: 1
listen: { port: abc, hots: x }
auth: { onInvalidKey: anonymos }
servers:
  Notes: { comand: node }
  search: { url: "https://h/", args: [1] }
workspaces:
  w: { trust: full }
limits: { bodyBytes: 1.5 }
mcpServers: {}
`;
    expect(await problemsOf(text)).toEqual([
      'ambit.yaml:2:17 listen.port: expected a number, found "abc"',
      'ambit.yaml:2:22 listen.hots: unknown key; did you mean "host"?',
      'ambit.yaml:3:23 auth.onInvalidKey: expected "refuse" or "anonymous", found "anonymos"; did you mean "anonymous"?',
      'ambit.yaml:5:3 servers.Notes: needs a command to start, or a url',
      'ambit.yaml:5:3 servers.Notes: a server name has 1 to 40 characters of a-z, 0-9 and "-", and does not start or end with "-"',
      'ambit.yaml:5:12 servers.Notes.comand: unknown key; did you mean "command"?',
      'ambit.yaml:6:32 servers.search.args: only for servers with a command',
      'ambit.yaml:6:39 servers.search.args[0]: expected a string, found a number; put it in quotes',
      'ambit.yaml:8:3 workspaces.w.path: missing; expected a string',
      'ambit.yaml:8:15 workspaces.w.trust: expected "direct", "sandboxed", "trusted", "untrusted" or "sandbox", found "full"',
      'ambit.yaml:9:22 limits.bodyBytes: expected a whole number, found 1.5',
      'ambit.yaml:10:1 mcpServers: unknown key; did you mean "servers"?',
    ]);
  });

  test.each([
    ['', '1:1 version: missing; expected 1'],
    ['# nothing yet\n', '1:1 version: missing; expected 1'],
    ['listen: { port: 1 }\n', '1:1 version: missing; expected 1'],
    ['version: 2\n', '1:10 version: expected 1, found 2'],
    ['version: "1"\n', '1:10 version: expected 1, found "1"'],
    ['- a\n', '1:1 expected a map, found a list'],
    ['hello\n', '1:1 expected a map, found a string'],
    ['version: 1\nlisten:\n', '2:1 listen: expected a map, found nothing'],
    ['version: 1\nlisten: { port: }\n', '2:11 listen.port: expected a number, found nothing'],
    ['version: 1\nlisten: { port: 70000 }\n', '2:17 listen.port: expected at most 65535, found 70000'],
    ['version: 1\nauth: { anonymous: "on" }\n', '2:20 auth.anonymous: expected "off", "loopback" or false, found "on"'],
    [
      'version: 1\nservers: { a: { command: x, cwd: / } }\n',
      '2:29 servers.a.cwd: unknown key; a server runs in the workspace of its session',
    ],
    [
      'version: 1\nservers: { a: { command: x, timeout: 5 } }\n',
      '2:29 servers.a.timeout: unknown key; did you mean "timeoutSeconds"?',
    ],
    [
      'version: 1\nservers: { a: { command: x, trust: dirct } }\n',
      '2:36 servers.a.trust: expected "direct", "sandboxed", "trusted", "untrusted", "sandbox" or a list, found "dirct"; did you mean "direct"?',
    ],
    [
      'version: 1\nservers: { a: { command: x, push: { sampling: "yes" } } }\n',
      '2:47 servers.a.push.sampling: expected true or false, found "yes"',
    ],
    ['version: 1\nlisten: { port: 1, port: 2 }\n', '2:20 listen.port: duplicate key; it is already on line 2'],
    ['version: 1\nversion: 1\n', '2:1 version: duplicate key; it is already on line 1'],
    ['version: 1\n1: a\n"1": b\n', '2:1 1: unknown key'],
    ['version: 1\nlisten: !!set { port }\n', '2:9 not valid YAML: unknown tag; only plain values are supported'],
    ['version: 1\n? [a]\n: b\n', '2:3 a key must be plain text'],
    ['version: 1\n---\nversion: 1\n', '2:1 a second document; a file can hold only one'],
    ['version: 1\nlisten: { host: "a }\n', '3:1 not valid YAML: a closing quote is missing'],
    [
      'version: 1\nlisten:\n  port: 1\n host: a\n',
      '4:1 not valid YAML: wrong indentation, or a closing } or ] is missing',
    ],
    ['version: 1\nlisten:\n\tport: 1\n', '3:1 not valid YAML: tabs cannot be used for indentation; use spaces'],
    ['version: 1\nlisten: *nope\n', '2:9 listen: this alias has no anchor before it, or is inside its own anchor'],
    ['version: 1\nlisten:\n  <<: { port: 1 }\n', '3:3 listen."<<": unknown key'],
  ])('%j: %s', async (text, problem) => {
    expect(await problemsOf(text)).toContain(`ambit.yaml:${problem}`);
  });

  test('at its place in JSON too', async () => {
    const text = '{\n\t"version": 1,\n\t"servers": {\n\t\t"a": { "command": "x", "scop": "call" }\n\t}\n}\n';
    expect(await problemsOf(text, '/srv/ambit/ambit.json')).toEqual([
      'ambit.json:4:26 servers.a.scop: unknown key; did you mean "scope"?',
    ]);
  });

  test('where an alias took it from', async () => {
    expect(await problemsOf('version: 1\nservers:\n  a: &a { command: x, scop: y }\n  b: *a\n')).toEqual([
      'ambit.yaml:3:23 servers.a.scop: unknown key; did you mean "scope"?',
      'ambit.yaml:3:23 servers.b.scop: unknown key; did you mean "scope"?',
    ]);
  });
});
