import {
  chownSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { loadConfig } from '../../../src/config/load/load.ts';
import { createApprovals } from '../../../src/upstreams/pins/approvals.ts';
import { ambitInProcess } from '../in-process.ts';

interface Written {
  readonly configFile: string;
  readonly servers: readonly string[];
  readonly unapproved: readonly string[];
  readonly include: readonly string[];
  readonly workspace: { readonly name: string; readonly path: string } | null;
}

let home: string;
const folder = process.cwd();
const at = (...names: string[]) => join(home, ...names);
const configFile = () => at('.config/ambit/ambit.yaml');

beforeEach(() => {
  home = realpathSync(mkdtempSync(join(tmpdir(), 'ambit-init-')));
  for (const name of ['XDG_STATE_HOME', 'XDG_CONFIG_HOME', 'AMBIT_CONFIG', 'AMBIT_DATA_DIR', 'CLAUDE_CONFIG_DIR'])
    vi.stubEnv(name, '');
  vi.stubEnv('HOME', home);
});
afterEach(() => {
  process.chdir(folder);
  vi.unstubAllEnvs();
  rmSync(home, { recursive: true, force: true });
});

function write(path: string, text: unknown): string {
  mkdirSync(dirname(at(path)), { recursive: true });
  writeFileSync(at(path), typeof text === 'string' ? text : JSON.stringify(text));
  return at(path);
}

/** A repository that no git has made; the file HEAD is what makes it one. */
function makeRepository(path: string): string {
  write(join(path, '.git/HEAD'), 'ref: refs/heads/main\n');
  return at(path);
}

async function init(cwd: string, ...args: string[]) {
  process.chdir(cwd);
  const { code, stdout, stderr } = await ambitInProcess(['init', '--json', ...args]);
  return { code, stderr, written: (code === 0 ? JSON.parse(stdout) : undefined) as Written };
}

test('an empty home: a commented configuration that is valid, for its owner only', async () => {
  const { code, written, stderr } = await init(home);
  expect(code).toBe(0);
  expect(written).toEqual({ configFile: configFile(), servers: [], unapproved: [], include: [], workspace: null });
  expect(statSync(configFile()).mode & 0o777).toBe(0o600);
  expect(statSync(dirname(configFile())).mode & 0o777).toBe(0o700);
  expect(stderr).toMatch(/^Next: ambit server add NAME -- COMMAND/m);
  const text = readFileSync(configFile(), 'utf8');
  expect(text.split('\n').filter((line) => line.length > 90)).toEqual([]);
  // Every part has a comment above it.
  for (const [, key] of text.matchAll(/\n([a-z]+):/g)) expect(text).toMatch(new RegExp(`# .+\\n${key}:`));
  const { config, warnings } = await loadConfig({ file: configFile() });
  expect({ warnings, servers: config.servers, workspaces: config.workspaces }).toEqual({
    warnings: [],
    servers: {},
    workspaces: {},
  });
  // Servers can be added to it without touching another line.
  expect((await ambitInProcess(['server', 'add', 'notes', '--', 'node', '-v'])).code).toBe(0);
  const added = readFileSync(configFile(), 'utf8').split('\n');
  expect(text.split('\n').filter((line) => !added.includes(line))).toEqual(['servers: {}']);
});

test('servers of several clients, the repository and its files; approved only with a yes', async () => {
  write('.cursor/mcp.json', { mcpServers: { notes: { command: 'node', env: { API_KEY: 'sk-secret' } } } });
  write('.config/Code/User/mcp.json', { servers: { visual: { type: 'http', url: 'https://h/mcp' } } });
  const shop = makeRepository('My Shop');
  write('My Shop/.mcp.json', { mcpServers: { site: { command: 'node' } } });
  mkdirSync(join(shop, 'deep/er'), { recursive: true });
  write('.claude.json', {
    mcpServers: { everywhere: { command: 'node' } },
    projects: {
      [shop]: { mcpServers: { here: { command: 'node' } } },
      '/srv/other': { mcpServers: { there: { command: 'node' } } },
    },
  });
  const first = await init(join(shop, 'deep/er'));
  const servers = ['here', 'everywhere', 'notes', 'visual'];
  expect(first.written).toMatchObject({ servers, unapproved: servers, include: [join(shop, '.mcp.json')] });
  expect(first.written.workspace).toEqual({ name: 'my-shop', path: shop });
  expect(first.stderr).toContain('  /srv/other\n');
  expect(first.stderr).toContain('Next: ambit server approve here\nDo the same for: everywhere, notes, visual\n');
  expect(first.stderr).not.toContain('sk-secret');
  const { config } = await loadConfig({ file: configFile() });
  expect(config.servers['notes']).toMatchObject({ source: 'imported', env: { API_KEY: 'sk-secret' } });
  expect(config.servers['site']).toMatchObject({ source: 'project' });
  rmSync(configFile());
  const second = await init(shop, '--yes');
  expect(second.written.unapproved).toEqual([]);
  expect(second.stderr).toMatch(/^Next: ambit client [a-z-]+ --workspace my-shop$/m);
  const dataDir = (await ambitInProcess(['server', 'list', '--json'])).stdout;
  const states = (JSON.parse(dataDir) as { servers: { name: string; approval: string }[] }).servers;
  expect(states.map(({ name, approval }) => `${name} ${approval}`)).toEqual([
    ...servers.map((name) => `${name} approved`),
    'site unapproved',
  ]);
});

test('an existing configuration is never changed, nor is a link that leads nowhere', async () => {
  write('.config/ambit/ambit.yaml', 'version: 1\n');
  const { code, stderr } = await init(home, '--yes');
  expect(code).toBe(1);
  expect(stderr).toContain('There is a configuration already');
  expect(stderr).toContain('ambit server add');
  expect(readFileSync(configFile(), 'utf8')).toBe('version: 1\n');
  rmSync(configFile());
  symlinkSync(at('elsewhere.yaml'), configFile());
  expect((await init(home)).code).toBe(1);
  expect(existsSync(at('elsewhere.yaml'))).toBe(false);
});

describe('the repository', () => {
  test.each([
    ['a worktree or submodule', 'gitdir: ../../elsewhere/.git/worktrees/x\n', true],
    ['a file of another kind', 'nothing of git', false],
  ])('%s', async (_, text, isFound) => {
    makeRepository('outer');
    write('outer/inner/.git', text);
    const { written } = await init(at('outer/inner'));
    expect(written.workspace?.path).toBe(isFound ? at('outer/inner') : at('outer'));
  });

  test('is left out where it contains the configuration or the data directory', async () => {
    makeRepository('.');
    const { code, written, stderr } = await init(home);
    expect({ code, workspace: written.workspace }).toEqual({ code: 0, workspace: null });
    expect(stderr).toContain('is not a workspace: it contains the configuration');
    makeRepository('shop');
    const inside = await init(at('shop'), '--config', at('other.yaml'), '--data-dir', at('shop/data'));
    expect(inside.written.workspace).toBeNull();
    expect(inside.stderr).toContain('it contains the data directory');
    expect(inside.stderr).toContain(`--config ${at('other.yaml')}`);
  });

  test('--workspace names a folder, and is refused where it cannot be one', async () => {
    mkdirSync(at('plain'));
    expect((await init(home, '--workspace', at('missing'))).stderr).toContain('there is no such folder');
    expect((await init(home, '--workspace', home)).code).toBe(1);
    expect(existsSync(configFile())).toBe(false);
    expect((await init(home, '--workspace', 'plain')).written.workspace?.path).toBe(at('plain'));
  });

  test('S1: a hostile one runs nothing, writes no YAML of its own and prints no control characters', async () => {
    const marker = at('ran');
    const name = 'a: {b} #c [x] \'"&*!|>%@`';
    makeRepository(name);
    write(join(name, '.git/config'), `[core]\n\tfsmonitor = touch ${marker}\n\thooksPath = ${at(name)}\n`);
    write(join(name, '.mcp.json'), '{"mcpServers":{"\\u001b[31mred":{"command":"\\u001b]0;x"}}}');
    symlinkSync('/etc/passwd', join(at(name), '.cursor'));
    mkdirSync(join(at(name), '.vscode'));
    symlinkSync(configFile(), join(at(name), '.vscode/mcp.json'));
    const { written, stderr } = await init(at(name), '--yes');
    expect(written.workspace).toEqual({ name: 'a-b-c-x', path: at(name) });
    expect(written.include).toEqual([join(at(name), '.mcp.json')]);
    const { config } = await loadConfig({ file: configFile() });
    expect(Object.values(config.workspaces).map(({ path }) => path)).toEqual([at(name)]);
    expect(stderr).not.toContain('\u001b');
    expect(existsSync(marker)).toBe(false);
    rmSync(configFile());
    const lines = 'x\nservers: { evil: { command: sh } }\n#\u001b[2J';
    makeRepository(lines);
    const refused = await init(at(lines));
    expect(refused.written.workspace).toBeNull();
    expect(refused.stderr).toContain('its path has control characters');
    expect(refused.stderr).not.toContain('\u001b');
    expect((await loadConfig({ file: configFile() })).config.servers).toEqual({});
  });

  test.skipIf(process.getuid?.() !== 0)('S1: one of another account is not taken', async () => {
    chownSync(makeRepository('foreign'), 65_534, 65_534);
    const { written, stderr } = await init(at('foreign'));
    expect(written.workspace).toBeNull();
    expect(stderr).toContain('it belongs to another account');
  });
});

test('a server that cannot be approved is written, and named', async () => {
  write('.cursor/mcp.json', { mcpServers: { gone: { command: 'no-such-program-here' } } });
  const { written, stderr } = await init(home, '--yes', '--data-dir', at('data'));
  expect(written).toMatchObject({ servers: ['gone'], unapproved: ['gone'] });
  expect(stderr).toContain('there is no such program on PATH');
  expect(createApprovals({ dataDir: at('data') }).list()).toEqual([]);
});

test('the screen fits 80 columns and 24 lines', async () => {
  const script = write('notes.mjs', '');
  write('.cursor/mcp.json', { mcpServers: { notes: { command: 'node', args: [script], env: { API_KEY: 'k' } } } });
  process.chdir(makeRepository('shop'));
  write('shop/.mcp.json', { mcpServers: { site: { command: 'node' } } });
  const { stdout, stderr } = await ambitInProcess(['init', '--yes']);
  // A terminal shows the line of stdout before the summary.
  const screen = stderr
    .replace('  servers  ', `${stdout}  servers  `)
    .replaceAll(home, '/home/ada')
    .replace(/program .*/, 'program  /usr/bin/node');
  expect(screen.split('\n').length).toBeLessThanOrEqual(24);
  expect(screen.split('\n').filter((line) => line.length > 80)).toEqual([]);
  await expect(`$ ambit init --yes
${screen}`).toMatchFileSnapshot(join(import.meta.dirname, '../screens/init.txt'));
});
