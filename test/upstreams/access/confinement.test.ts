import { mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { type Config, configSchema } from '../../../src/config/schema/schema.ts';
import { createConfinement, sandboxJwksPath } from '../../../src/upstreams/access/confinement.ts';
import { defineServers, type StdioServer } from '../../../src/upstreams/definition.ts';

let root = '';
const at = (...names: string[]) => join(root, ...names);
beforeEach(() => {
  root = realpathSync(mkdtempSync(join(tmpdir(), 'ambit-confine-')));
  vi.stubEnv('XDG_RUNTIME_DIR', at('runtime'));
  vi.stubEnv('HOME', at('home'));
  for (const folder of ['data/keys/public', 'mine', 'other', 'shared', 'etc', ...listed])
    mkdirSync(at(folder), { recursive: true });
  writeFileSync(at('etc/ambit.yaml'), '');
});
afterEach(() => {
  vi.unstubAllEnvs();
  rmSync(root, { recursive: true, force: true });
});

/** The folders that list running gateways. */
const listed = ['runtime/ambit', 'home/.local/state/ambit/run'];
/** Leaves out the folders that list the gateways of the account that runs the tests. */
const isOfTest = (path: string) => path.startsWith(root);

function confined(
  sandbox: { readable?: string[]; writable?: string[]; memoryMb?: number } = {},
  place: { cwd: string; workspace?: string } = { cwd: at('mine') },
) {
  const config = configSchema.parse({
    version: 1,
    servers: { a: { command: 'x', sandbox } },
    workspaces: { mine: { path: at('mine') }, other: { path: at('other') } },
  }) as unknown as Config;
  const server = defineServers(config, at('etc')).get('a') as StdioServer;
  const jwksFile = at('data/keys/public/jwks.json');
  const { cwd, workspace } = place;
  return createConfinement({
    server,
    cwd,
    workspace,
    rules: undefined,
    config,
    configFile: at('etc/ambit.yaml'),
    dataDir: at('data'),
    jwksFile,
  });
}

test('a session is shown its workspace, what is granted and the public keys; the rest is hidden', () => {
  const confinement = confined({ readable: [at('shared')], memoryMb: 7 });
  expect({ ...confinement, hidden: confinement.hidden.filter(isOfTest) }).toEqual({
    network: [],
    home: { source: at('mine'), target: at('mine'), guard: { git: 'read' } },
    readable: [
      { source: at('shared'), target: at('shared') },
      { source: at('data/keys/public'), target: join(sandboxJwksPath, '..') },
    ],
    writable: [],
    hidden: [at('etc/ambit.yaml'), at('data'), ...listed.map((name) => at(name)), at('other')],
    masked: [],
    open: [at('mine'), at('other')],
    packages: at('data/packages'),
    limits: { memoryMb: 7, pids: 64, cpus: 1, fileMb: 1024, openFiles: 1024, wallSeconds: 86_400 },
  });
});

test('S4: every secret is hidden, and included files are masked where they lie and in the folder of a session', () => {
  for (const name of ['etc/key', 'etc/cert', 'etc/oauth', 'etc/hook', 'etc/sealing']) writeFileSync(at(name), '');
  mkdirSync(at('data/folders/one'), { recursive: true });
  symlinkSync(at('mine/sub.json'), at('etc/link.json'));
  writeFileSync(at('mine/sub.json'), '{}');
  const config = configSchema.parse({
    version: 1,
    listen: { tls: { cert: at('etc/cert'), key: at('etc/key') } },
    credentials: { keyFile: at('etc/sealing') },
    events: { webhook: { url: 'https://h/', secretFile: at('etc/hook') } },
    include: [at('etc/link.json'), at('etc/apart.json')],
    servers: {
      a: { command: 'x' },
      b: { url: 'https://h/mcp', oauth: { issuer: 'https://h', clientId: 'x', clientSecretFile: at('etc/oauth') } },
    },
    workspaces: { mine: { path: at('mine') } },
  }) as unknown as Config;
  const server = defineServers(config, at('etc')).get('a') as StdioServer;
  const rules = config.workspaces['mine'];
  const places = { configFile: at('etc/ambit.yaml'), dataDir: at('data'), jwksFile: undefined, workspace: undefined };
  const { hidden, masked } = createConfinement({ server, cwd: at('data/folders/one'), rules, config, ...places });
  for (const name of ['key', 'oauth', 'hook', 'sealing']) expect(hidden).toContain(at('etc', name));
  expect(masked).toEqual([at('mine/sub.json'), at('etc/apart.json'), at('data/folders/one/sub.json')]);
});

test('a process that serves a workspace without working in it may write there too, and turn nothing by it', () => {
  const place = { cwd: at('data/run/user-1'), workspace: at('mine') };
  expect(confined({}, place)).toMatchObject({
    home: { target: at('data/run/user-1') },
    writable: [{ source: at('mine'), target: at('mine') }],
  });
  symlinkSync('/etc', at('mine/turned'));
  expect(() => confined({ readable: [at('mine/turned')] }, place)).toThrow(
    expect.objectContaining({ code: 'SANDBOX_UNAVAILABLE' }),
  );
});

test('a grant under the name of a link is shown under both names', () => {
  symlinkSync(at('shared'), at('link'));
  expect(confined({ writable: [at('link')] }).writable).toEqual([
    { source: at('shared'), target: at('shared'), guard: { git: 'read' } },
    { source: at('shared'), target: at('link'), guard: { git: 'read' } },
  ]);
});

test('a grant that leads through a link in the workspace, or in another grant, is refused: the session could turn it', () => {
  symlinkSync('/etc', at('mine/turned'));
  symlinkSync('/etc', at('shared/turned'));
  symlinkSync(at('mine/turned'), at('far'));
  const refusal = expect.objectContaining({ code: 'SANDBOX_UNAVAILABLE' });
  for (const path of ['mine/turned', 'mine/turned/ssh', 'far']) {
    expect(() => confined({ readable: [at(path)] }), path).toThrow(refusal);
    expect(() => confined({ writable: [at(path)] }), path).toThrow(refusal);
  }
  expect(() => confined({ writable: [at('shared')], readable: [at('shared/turned')] })).toThrow(refusal);
  // Who may only read there cannot turn it.
  expect(() => confined({ readable: [at('shared'), at('shared/turned')] })).not.toThrow();
});

test('S4: a workspace or a grant that another session could turn into a link is refused', () => {
  const refusal = expect.objectContaining({ code: 'SANDBOX_UNAVAILABLE' });
  symlinkSync(at('etc'), at('other/turned'));
  expect(() => confined({}, { cwd: at('other/turned') })).toThrow(refusal);
  expect(() => confined({}, { cwd: at('mine'), workspace: at('other/turned') })).toThrow(refusal);
  expect(() => confined({ readable: [at('other/turned')] })).toThrow(refusal);
});

test('S4: beside a workspace of a pattern, all others are hidden, and a link there is refused', () => {
  for (const name of ['src/a', 'src/b']) mkdirSync(at(name), { recursive: true });
  const given = { version: 1, servers: { a: { command: 'x' } }, workspaces: { 'src-*': { path: at('src/*') } } };
  const config = configSchema.parse(given) as unknown as Config;
  const server = defineServers(config, at('etc')).get('a') as StdioServer;
  const place = {
    workspace: undefined,
    rules: undefined,
    jwksFile: undefined,
    configFile: 'none',
    dataDir: at('data'),
  };
  const create = (cwd: string) => createConfinement({ server, config, cwd, ...place });
  const { home, hidden, open } = create(at('src/a'));
  expect(home.source).toBe(at('src/a'));
  expect(hidden).toContain(at('src'));
  expect(open).toContain(at('src'));
  symlinkSync(at('etc'), at('src/turned'));
  expect(() => create(at('src/turned'))).toThrow(expect.objectContaining({ code: 'SANDBOX_UNAVAILABLE' }));
});

test('the key of credentials and the secret of the webhook are hidden, though they lie elsewhere', () => {
  for (const name of ['key', 'secret']) writeFileSync(at(`shared/${name}`), 'x');
  const webhook = { url: 'https://example.com/', secretFile: at('shared/secret') };
  const given = { version: 1, servers: { a: { command: 'x' } }, credentials: { keyFile: at('shared/key') } };
  const config = configSchema.parse({ ...given, events: { webhook } }) as unknown as Config;
  const server = defineServers(config, at('etc')).get('a') as StdioServer;
  const place = { cwd: at('mine'), workspace: undefined, rules: undefined, jwksFile: undefined };
  const { hidden } = createConfinement({ server, config, configFile: 'none', dataDir: at('data'), ...place });
  expect(hidden.filter(isOfTest)).toEqual([
    at('data'),
    ...listed.map((name) => at(name)),
    at('shared/key'),
    at('shared/secret'),
  ]);
});

test('S4: a repository is guarded as its workspace says, and what the workspace opens is free', () => {
  const workspaces = {
    mine: { path: at('mine'), git: 'write', files: { open: ['AGENTS.md'] } },
    other: { path: at('other') },
  };
  const config = configSchema.parse({ version: 1, servers: { a: { command: 'x' } }, workspaces }) as unknown as Config;
  const server = defineServers(config, at('etc')).get('a') as StdioServer;
  const place = {
    workspace: undefined,
    config,
    configFile: at('etc/ambit.yaml'),
    dataDir: at('data'),
    jwksFile: undefined,
  };
  const guardOf = (id: string) =>
    createConfinement({ server, cwd: at(id), rules: config.workspaces[id], ...place }).home.guard;
  expect([guardOf('mine')?.git, guardOf('other')?.git]).toEqual(['write', 'read']);
  const names = [['AGENTS.md'], ['.vscode'], ['.github', 'workflows']];
  expect(names.map((each) => guardOf('mine')?.mayWrite?.(each))).toEqual([true, false, false]);
});
