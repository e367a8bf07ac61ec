import {
  chmodSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { createGateway } from '../../../src/index.ts';
import { startAmbit } from '../../journeys/start-ambit.ts';
import { type AdminGateway, openAdminGateway } from './admin-gateway.ts';

const start = `version: 1
# What the shop needs.
servers:
  own: { command: node } # mine
rules:
  - { id: no-drop, deny: "own__drop" }
`;

let admin: AdminGateway;
beforeAll(async () => {
  admin = await openAdminGateway(start);
});
beforeEach(async () => {
  writeFileSync(admin.configFile, start);
  chmodSync(admin.configFile, 0o644);
  await admin.gateway.reload(admin.configFile);
});
afterAll(() => admin.close());

const paste = (mcpServers: unknown, dryRun = false) =>
  admin.send('POST', '/servers/import', { text: JSON.stringify({ mcpServers }), dryRun });
const listNames = async () => (await admin.ask('GET /api/v1/servers')).servers.map(({ name }) => name);

describe('a server that is added over the control API', () => {
  test('is there with the answer, keeps comments and a backup, and starts only after it was approved', async () => {
    const { applied, reloaded, diff } = await admin.ask('POST /api/v1/servers', {
      body: { name: 'fresh', command: 'node', args: ['--token', 'hunter2hunter2'], env: { API_KEY: 'k-123' } },
    });
    expect([applied, reloaded]).toEqual([true, true]);
    expect(diff.join('\n')).toContain('+   fresh:');
    expect(diff.join('\n')).not.toMatch(/k-123/);
    const [own, fresh] = (await admin.ask('GET /api/v1/servers')).servers;
    expect([own?.name, fresh?.name, fresh?.source, fresh?.state]).toEqual(['own', 'fresh', 'imported', 'unapproved']);
    expect(admin.read()).toContain('# What the shop needs.\nservers:\n  own: { command: node } # mine\n');
    expect(statSync(admin.configFile).mode & 0o777).toBe(0o600);
    const [backup] = readdirSync(dirname(admin.configFile)).filter((name) => name.endsWith('.backup'));
    expect(readFileSync(join(dirname(admin.configFile), backup ?? ''), 'utf8')).toBe(start);
    expect(await admin.send('POST', '/servers/fresh/check')).toMatchObject({ body: { code: 'SERVER_NOT_APPROVED' } });
  });

  test('is removed with its approval, and a server of the same name must be approved anew', async () => {
    const add = () => admin.ask('POST /api/v1/servers', { body: { name: 'fresh', command: 'node' } });
    const state = async () => (await admin.ask('GET /api/v1/servers/{id}', { id: 'fresh' })).approval;
    await add();
    const { definitionHash, pinsHash } = await admin.ask('POST /api/v1/servers/{id}/review', { id: 'fresh' });
    await admin.ask('POST /api/v1/servers/{id}/approve', { id: 'fresh', body: { definitionHash, pinsHash } });
    expect(await state()).toBe('approved');
    const planned = await admin.ask('DELETE /api/v1/servers/{id}', { id: 'fresh', query: { dryRun: 'true' } });
    expect([planned.applied, await listNames()]).toEqual([false, ['own', 'fresh']]);
    const removed = await admin.ask('DELETE /api/v1/servers/{id}', { id: 'fresh' });
    expect([removed.reloaded, await listNames(), admin.read()]).toEqual([true, ['own'], start]);
    await add();
    expect(await state()).toBe('unapproved');
  });

  test('a dry run shows the change and writes nothing', async () => {
    const { body } = await paste(
      { 'My Notes': { command: 'npx', args: ['-y', 'notes'] }, own: { command: 'evil' } },
      true,
    );
    expect(body).toMatchObject({
      applied: false,
      plan: [
        { name: 'my-notes', action: 'add' },
        { name: 'own', action: 'keep' },
      ],
    });
    expect(body['diff']).toContain('+     command: npx');
    expect([admin.read(), await listNames()]).toEqual([start, ['own']]);
  });

  test('requests that come together all take effect', async () => {
    const names = ['a', 'b', 'c'];
    await Promise.all(names.map((name) => admin.ask('POST /api/v1/servers', { body: { name, command: 'node' } })));
    expect((await listNames()).sort()).toEqual([...names, 'own']);
  });

  test('is applied by "ambit serve" before the answer', async () => {
    const ambit = await startAmbit({ store: { kind: 'memory' } });
    const token = readFileSync(join(ambit.dataDir, 'admin-token'), 'utf8').trim();
    const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' };
    const body = JSON.stringify({ name: 'fresh', command: 'node' });
    const added = await fetch(`${ambit.url}/api/v1/servers`, { method: 'POST', headers, body });
    expect(await added.json()).toMatchObject({ applied: true, reloaded: true });
    expect((await fetch(`${ambit.url}/api/v1/servers/fresh`, { headers })).status).toBe(200);
    await ambit.stop();
  });
});

describe('S3: what an approval allows is shown whole, however it is written', () => {
  const script = join(import.meta.dirname, 'admin-gateway.ts');
  const long = `// ${'harmless comment '.repeat(600)}`;
  const hidden: Readonly<Record<string, Readonly<Record<string, unknown>>>> = {
    flag: { command: 'bash', args: ['-authc', 'touch /tmp/x; exec cat'] },
    attached: { command: 'python3', args: ['-Xtoken', '-cimport os;os.system("touch /tmp/x")', script] },
    long: { command: 'node', args: ['-e', `${long}\nrequire("fs").writeFileSync("/tmp/x", "")`] },
    value: { command: 'bash', args: ['-c', `echo password=$(touch\${IFS}/tmp/x); exec cat`] },
    header: { command: 'bash', args: ['-c', 'true authorization: ; touch /tmp/x; exec cat'] },
    json: { command: 'python3', args: ['-c', '{"token": "import os"}'] },
    random: { command: 'sh', args: ['-c', 'q7Zp2LmXv9Tb4RkWc8YdQ7zP2lMxV9tB4rKwC8yD'] },
    far: { url: 'https://h.example/9f86d081884c7d659a2feaa0c55ad015/mcp?key=k1&next=2#part' },
  };
  const readDiff = (diff: unknown) =>
    parse((diff as string[]).map((line) => line.slice(4)).join('\n')) as Record<string, Record<string, unknown>>;

  test('in the preview of an import, and of a server that is added', async () => {
    const { body } = await paste(hidden, true);
    const imported = readDiff(body['diff']);
    for (const [name, server] of Object.entries(hidden)) {
      expect(imported[name]).toMatchObject(server);
      const added = await admin.send('POST', '/servers', { name, ...server, dryRun: true });
      expect(readDiff(added.body['diff'])[name]).toMatchObject(server);
    }
    expect(admin.read()).toBe(start);
  });

  test('in the review, and after it in what has changed', async () => {
    await paste(hidden);
    for (const [name, server] of Object.entries(hidden)) {
      const { definition, definitionHash, pinsHash } = await admin.ask('POST /api/v1/servers/{id}/review', {
        id: name,
      });
      expect(definition).toMatchObject(server);
      await admin.ask('POST /api/v1/servers/{id}/approve', { id: name, body: { definitionHash, pinsHash } });
    }
    const words = `echo password=$(touch\${IFS}/tmp/y)`;
    writeFileSync(
      admin.configFile,
      `version: 1\nservers: { value: { command: bash, args: ["-c", "${words}"], imported: x } }\n`,
    );
    await admin.gateway.reload(admin.configFile);
    const { changes } = await admin.ask('POST /api/v1/servers/{id}/review', { id: 'value' });
    expect(changes).toEqual([expect.stringContaining(words)]);
    expect((await admin.ask('GET /api/v1/servers/{id}', { id: 'value' })).changes.join()).not.toContain('touch');
  });

  test('with a note that an argument is code, also where it follows the option without a blank', async () => {
    await paste(hidden);
    const { notes } = await admin.ask('POST /api/v1/servers/{id}/review', { id: 'attached' });
    expect(notes).toContainEqual(expect.stringMatching(/^The argument of -c\w* is code/));
  });

  test('but the preview of a removal shows no more than the page of the server', async () => {
    await paste(hidden);
    const { diff } = await admin.ask('DELETE /api/v1/servers/{id}', { id: 'far', query: { dryRun: 'true' } });
    expect(readDiff(diff)['far']).toMatchObject({ url: 'https://h.example/…/mcp?key=…&next=…' });
    const shown = await admin.ask('GET /api/v1/servers/{id}', { id: 'far' });
    expect(shown.definition).toMatchObject({ url: 'https://h.example/…/mcp?key=…&next=…' });
  });
});

test('a viewer gets no argument of a server, not even in what has changed', async () => {
  const before = ['-u', 'user:old-word', '-pold-word', '-p', 'old-word'];
  const write = (args: readonly string[]) => {
    const servers = { theirs: { command: 'node', args, imported: 'x' } };
    writeFileSync(admin.configFile, JSON.stringify({ version: 1, servers }));
    return admin.gateway.reload(admin.configFile);
  };
  await write(before);
  const { definitionHash, pinsHash } = await admin.ask('POST /api/v1/servers/{id}/review', { id: 'theirs' });
  await admin.ask('POST /api/v1/servers/{id}/approve', { id: 'theirs', body: { definitionHash, pinsHash } });
  await write(before.map((arg) => arg.replace('old', 'new')));
  const viewer = await admin.signIn('viewer');
  const texts: string[] = [];
  for (const path of ['/servers', '/servers/theirs', '/status']) {
    const response = await fetch(`${admin.url}/api/v1${path}`, { headers: viewer });
    expect(response.status).toBe(200);
    texts.push(await response.text());
  }
  expect(texts.join('\n')).not.toMatch(/old-word|new-word/);
  expect(JSON.parse(texts[1] ?? '')).toMatchObject({
    approval: 'changed',
    changes: ['args[1]: changed', 'args[2]: changed', 'args[4]: changed'],
    definition: { command: 'node', args: null, argCount: 5 },
  });
  const shown = await admin.ask('GET /api/v1/servers/{id}', { id: 'theirs' });
  expect(shown.changes[1]).toBe('args[2]: -pold-word → -pnew-word');
});

describe('hostile input', () => {
  test('P3: reserved variables, and those that decide which program runs, are refused', async () => {
    for (const name of ['AMBIT_SESSION_ID', 'AMBIT_TRUST_LEVEL', 'NODE_OPTIONS', 'LD_PRELOAD', 'PATH']) {
      const { status, body } = await paste({ x: { command: 'node', env: { [name]: '/tmp/x' } } });
      expect([status, body.detail]).toEqual([400, expect.stringContaining(`env ${name}`)]);
      const added = await admin.send('POST', '/servers', { name: 'x', command: 'node', env: { [name]: '/tmp/x' } });
      expect(added.status).toBe(400);
    }
    expect(admin.read()).toBe(start);
  });

  test.each([
    ['a line end in the command', { command: 'node\nrules: []' }],
    ['no command', {}],
    ['a command and a url', { command: 'node', url: 'https://h/mcp' }],
    ['a password in the url', { url: 'https://user:secret@h/mcp' }],
    ['another scheme', { url: 'file:///etc/passwd' }],
    ['a header of the gateway', { url: 'https://h/mcp', headers: { Host: 'x' } }],
    ['a NUL', { command: 'node', args: ['a\u0000b'] }],
  ])('%s is refused, and nothing is written', async (_, server) => {
    const { status, body } = await paste({ x: server });
    expect([status, body.code]).toEqual([400, 'REQUEST_INVALID']);
    expect(body.detail).not.toContain('secret');
    expect(admin.read()).toBe(start);
  });

  test('names and values that look like YAML stay names and values', async () => {
    const values = [
      'a: b\nrules: []',
      '*x',
      '&x y',
      '!!js/function 1',
      '- - -',
      '%YAML 1.1',
      `\${HOME}`,
      '\u2028',
      '"',
    ];
    const { body } = await paste({ x: { command: '*x', args: values, env: { 'a:b': '# {' } } });
    expect(body).toMatchObject({ applied: true, reloaded: true, problems: [expect.stringContaining('not expand')] });
    const written = parse(admin.read()) as { servers: Record<string, unknown>; rules: unknown[] };
    expect(written.servers['x']).toEqual({
      command: '*x',
      args: values,
      env: { 'a:b': '# {' },
      imported: 'control API',
    });
    expect([Object.keys(written.servers), written.rules]).toEqual([
      ['own', 'x'],
      [{ id: 'no-drop', deny: 'own__drop' }],
    ]);
  });

  test('no key reaches a prototype, and no server gets more rights than a pasted one may have', async () => {
    const text = `{ "mcpServers": { "__proto__": { "command": "x" }, "constructor": { "command": "y",
      "__proto__": { "imported": null }, "trust": ["direct"], "sandbox": { "network": ["*.com:443"] },
      "env": { "A": "1" }, "tools": { "allow": [] }, "imported": null } } }`;
    await admin.ask('POST /api/v1/servers/import', { body: { text } });
    const { servers } = parse(admin.read()) as { servers: Record<string, Record<string, unknown>> };
    expect(Object.keys(servers)).toEqual(['own', 'proto', 'constructor']);
    expect(servers['constructor']).toMatchObject({ command: 'y', imported: 'control API' });
    expect(Object.keys(servers['constructor'] ?? {})).toEqual(['command', 'env', 'imported']);
    expect(({} as { command?: unknown }).command).toBeUndefined();
    const inEnv = { text: '{ "mcpServers": { "z": { "command": "x", "env": { "__proto__": "z" } } } }' };
    expect((await admin.send('POST', '/servers/import', inEnv)).body.code).toBe('CONFIG_UNCHANGED');
    const states = (await admin.ask('GET /api/v1/servers')).servers.map(({ name, approval }) => [name, approval]);
    expect(states).toEqual([
      ['own', 'not needed'],
      ['proto', 'unapproved'],
      ['constructor', 'unapproved'],
    ]);
  });

  test('an existing server is never replaced, and two spellings of a name are one server', async () => {
    expect((await paste({ Own: { command: 'evil' } })).body).toMatchObject({
      applied: false,
      plan: [{ action: 'keep' }],
    });
    const added = await admin.send('POST', '/servers', { name: 'own', command: 'evil' });
    expect([added.status, added.body.code]).toEqual([409, 'CONFIG_UNCHANGED']);
    expect(admin.read()).toBe(start);
    const { body } = await paste({ 'A b': { command: 'first' }, 'a-B': { command: 'second' } });
    expect(body['plan']).toHaveLength(1);
    expect(parse(admin.read())).toMatchObject({ servers: { 'a-b': { command: 'first' } } });
  });

  test('a name that is not valid or reserved is refused', async () => {
    for (const name of ['', 'ambit', 'A', 'a b', '../x', '__proto__', 'x'.repeat(41), 'a\nb']) {
      expect((await admin.send('POST', '/servers', { name, command: 'x' })).status).toBe(400);
    }
    expect((await admin.send('POST', '/servers', { name: 'x', command: 'x', trust: ['direct'] })).status).toBe(400);
    expect(admin.read()).toBe(start);
  });

  test('a text that is too long, no JSON, or has too many servers is refused', async () => {
    const many = Object.fromEntries(Array.from({ length: 101 }, (_, at) => [`s${at}`, { command: 'x' }]));
    expect((await paste(many)).body.detail).toContain('more than 100');
    expect((await admin.send('POST', '/servers/import', { text: '{"mcpServers":' })).status).toBe(400);
    expect((await admin.send('POST', '/servers/import', { text: '/*'.repeat(60_000) })).status).toBe(400);
    expect((await paste({ x: { command: 'x', args: ['y'.repeat(300_000)] } })).status).toBe(413);
    expect(admin.read()).toBe(start);
  });
});

describe('the file', () => {
  test('one that another user may write, or that is not valid, is not touched', async () => {
    chmodSync(admin.configFile, 0o666);
    const foreign = await admin.send('POST', '/servers', { name: 'x', command: 'node' });
    expect([foreign.status, foreign.body.code]).toEqual([409, 'CONFIG_UNCHANGED']);
    chmodSync(admin.configFile, 0o600);
    writeFileSync(admin.configFile, `${start}sessions: { nonsense: 1 }\n`);
    const broken = await admin.send('POST', '/servers', { name: 'x', command: 'node' });
    expect([broken.status, broken.body.code]).toEqual([409, 'CONFIG_UNCHANGED']);
    expect(admin.read()).toBe(`${start}sessions: { nonsense: 1 }\n`);
  });

  test('a server of an included file is not removed, and an unknown one is not found', async () => {
    const included = join(dirname(admin.configFile), 'mcp.json');
    writeFileSync(included, '{ "mcpServers": { "theirs": { "command": "node" } } }');
    writeFileSync(admin.configFile, `${start}include: [mcp.json]\n`);
    await admin.gateway.reload(admin.configFile);
    expect((await admin.send('DELETE', '/servers/theirs')).body.code).toBe('CONFIG_UNCHANGED');
    expect((await admin.send('POST', '/servers', { name: 'theirs', command: 'x' })).body.code).toBe('CONFIG_UNCHANGED');
    for (const name of ['nobody', '__proto__', 'constructor'])
      expect((await admin.send('DELETE', `/servers/${name}`)).status).toBe(404);
  });

  test('a gateway that a program has configured has no file to change', async () => {
    const dataDir = mkdtempSync(join(tmpdir(), 'ambit-embedded-'));
    const gateway = await createGateway({ config: { version: 1 }, dataDir, log: { info() {}, warn() {} } });
    const { url } = await gateway.listen({ port: 0 });
    const token = readFileSync(join(dataDir, 'admin-token'), 'utf8').trim();
    const answer = await fetch(`${url}/api/v1/servers`, {
      method: 'POST',
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
      body: JSON.stringify({ name: 'x', command: 'node' }),
    });
    expect([answer.status, existsSync('(config)')]).toEqual([409, false]);
    await gateway.close();
    rmSync(dataDir, { recursive: true, force: true });
  });
});
