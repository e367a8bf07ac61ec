import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { loadConfig } from '../../../src/config/load/load.ts';
import { createApprovals } from '../../../src/upstreams/pins/approvals.ts';
import type { ExitedCommand } from '../../journeys/start-ambit.ts';
import { ambitInProcess } from '../in-process.ts';

let home: string;
let configFile: string;
beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), 'ambit-import-'));
  configFile = writeFileAt('.config/ambit/ambit.yaml', commented);
});
afterEach(() => rmSync(home, { recursive: true, force: true }));

const commented = `# my gateway
version: 1
servers:
  # the notes of the team
  notes: { command: node, args: [notes.js] } # keep
workspaces:
  w: { path: /srv/w }
`;

function writeFileAt(path: string, text: unknown): string {
  const file = join(home, path);
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, typeof text === 'string' ? text : JSON.stringify(text));
  return file;
}

const dataDir = () => join(home, 'data');
const ambit = (...args: string[]): Promise<ExitedCommand> =>
  ambitInProcess(['import', ...args, '--config', configFile, '--data-dir', dataDir()], {
    HOME: home,
    XDG_CONFIG_HOME: join(home, '.config'),
    CLAUDE_CONFIG_DIR: '',
  });

const secret = { command: 'node', args: ['-v'], env: { API_KEY: 'sk-secret' } };

test('finds the servers of every known client and writes them in, comments kept', async () => {
  writeFileAt('.claude.json', { projects: {}, mcpServers: { code: secret } });
  writeFileAt('.config/Claude/claude_desktop_config.json', { mcpServers: { 'My Desktop': { command: 'node' } } });
  writeFileAt('.cursor/mcp.json', {
    mcpServers: { cursed: { url: 'https://h/mcp', headers: { Authorization: 'Bearer sk-secret' } } },
  });
  writeFileAt(
    '.config/Code/User/mcp.json',
    '{ // here\n "servers": { "visual": { "type": "stdio", "command": "node" }, } }',
  );
  const { code, stdout, stderr } = await ambit('--yes', '--json');
  expect(code).toBe(0);
  const { added, backup } = JSON.parse(stdout) as { added: string[]; backup: string };
  expect(added).toEqual(['code', 'my-desktop', 'cursed', 'visual']);
  expect(stdout + stderr).not.toContain('sk-secret');
  const text = readFileSync(configFile, 'utf8');
  for (const line of commented.split('\n')) expect(text).toContain(line);
  expect(text).toContain('sk-secret');
  const { config } = await loadConfig({ file: configFile });
  expect(config.servers['code']).toMatchObject({
    source: 'imported',
    file: 'claude-code',
    env: { API_KEY: 'sk-secret' },
  });
  expect(config.servers['cursed']).toMatchObject({ source: 'imported', file: 'cursor', transport: 'http' });
  expect(readFileSync(backup, 'utf8')).toBe(commented);
  expect(statSync(backup).mode & 0o777).toBe(0o600);
  const approvals = createApprovals({ dataDir: dataDir() });
  expect(
    approvals
      .list()
      .map(({ name }) => name)
      .sort(),
  ).toEqual([...added].sort());
});

test('one client, or one file with its relative names', async () => {
  writeFileAt('.claude.json', { mcpServers: { code: secret } });
  writeFileAt('.cursor/mcp.json', { mcpServers: { cursed: secret } });
  expect(JSON.parse((await ambit('--from', 'cursor', '--yes', '--json')).stdout).added).toEqual(['cursed']);
  writeFileAt('project/server.js', '');
  const file = writeFileAt('project/.mcp.json', { mcpServers: { local: { command: './run', args: ['server.js'] } } });
  await ambit(file, '--yes');
  const { config } = await loadConfig({ file: configFile });
  expect(config.servers['local']).toMatchObject({
    command: join(home, 'project/run'),
    args: [join(home, 'project/server.js')],
    file,
  });
  expect((await ambit('--from', 'emacs')).code).toBe(2);
});

test('shows first and asks: a dry run and a missing yes write nothing', async () => {
  writeFileAt('.claude.json', { mcpServers: { code: secret } });
  const dry = await ambit('--dry-run');
  expect(dry.code).toBe(0);
  expect(dry.stderr).toContain('+ code (claude-code)\n  runs     node -v\n');
  expect((await ambit()).code).toBe(2);
  expect(readFileSync(configFile, 'utf8')).toBe(commented);
  expect(readdirSync(dirname(configFile))).toEqual(['ambit.yaml']);
});

test('an existing server stays, a second import adds nothing, dangerous entries are left out', async () => {
  writeFileAt('.claude.json', {
    mcpServers: { notes: secret, evil: { command: 'node', env: { NODE_OPTIONS: '--import=/x' } }, code: secret },
  });
  const { stdout, stderr } = await ambit('--yes');
  expect(stdout).toBe('Added: code.\n');
  expect(stderr).toContain('= notes (claude-code) skipped: the configuration already has a server of this name');
  expect(stderr).toContain('mcpServers.evil: env NODE_OPTIONS');
  expect((await loadConfig({ file: configFile })).config.servers['notes']?.source).toBe('operator');
  expect((await ambit('--yes')).stdout).toBe('Nothing to add.\n');
});

test('undo puts back what was there, revokes, and loses nothing', async () => {
  writeFileAt('.claude.json', { mcpServers: { code: secret } });
  await ambit('--yes');
  const edited = `${readFileSync(configFile, 'utf8')}# by hand\n`;
  writeFileSync(configFile, edited);
  const { code, stdout } = await ambit('--undo', '--yes', '--json');
  expect(code).toBe(0);
  expect(readFileSync(configFile, 'utf8')).toBe(commented);
  const { undone, removed } = JSON.parse(stdout) as { undone: string; removed: string[] };
  expect(removed).toEqual(['code']);
  expect(readFileSync(undone, 'utf8')).toBe(edited);
  expect(createApprovals({ dataDir: dataDir() }).list()).toEqual([]);
  expect((await ambit('--undo', '--yes')).code).toBe(1);
});

test('a configuration that is missing is made, one in JSON stays JSON, a broken one is left alone', async () => {
  writeFileAt('.claude.json', { mcpServers: { code: secret } });
  rmSync(configFile);
  expect((await ambit('--yes')).code).toBe(0);
  expect(statSync(configFile).mode & 0o777).toBe(0o600);
  writeFileSync(configFile, '{"version":1,"servers":{"own":{"command":"x"}}}');
  expect((await ambit('--yes')).code).toBe(0);
  expect(Object.keys(JSON.parse(readFileSync(configFile, 'utf8')).servers)).toEqual(['own', 'code']);
  writeFileSync(configFile, 'version: 1\nservers: [');
  expect((await ambit('--yes')).code).toBe(1);
  expect(readFileSync(configFile, 'utf8')).toBe('version: 1\nservers: [');
});

test('undo of an import that made the file removes it, and keeps a copy', async () => {
  writeFileAt('.claude.json', { mcpServers: { code: secret } });
  rmSync(configFile);
  const { stderr } = await ambit('--yes');
  expect(stderr).toContain(`Created ${configFile}`);
  const { code, stdout } = await ambit('--undo', '--yes', '--json');
  const { undone, removed, restored } = JSON.parse(stdout) as { undone: string; removed: string[]; restored: null };
  expect({ code, removed, restored }).toEqual({ code: 0, removed: ['code'], restored: null });
  expect(existsSync(configFile)).toBe(false);
  expect(readFileSync(undone, 'utf8')).toContain('sk-secret');
  expect(createApprovals({ dataDir: dataDir() }).list()).toEqual([]);
});

test('servers of Claude Code for the project around the working directory, and where the others are', async () => {
  const shop = dirname(writeFileAt('shop/.git/HEAD', 'ref: refs/heads/main'));
  const project = realpathSync(dirname(shop));
  writeFileAt('.claude.json', {
    history: 'x'.repeat(2_000_000),
    mcpServers: { both: { command: 'node', args: ['everywhere'] } },
    projects: {
      [project]: { mcpServers: { both: { command: 'node', args: ['here'] }, own: { command: 'node' } } },
      '/srv/other\u001b': { mcpServers: { there: { command: 'node' } } },
      '/srv/none': { mcpServers: {} },
    },
  });
  const folder = process.cwd();
  process.chdir(project);
  const { stdout, stderr } = await ambit('--yes').finally(() => process.chdir(folder));
  expect(stdout).toBe('Added: both, own.\n');
  expect((await loadConfig({ file: configFile })).config.servers['both']).toMatchObject({ args: ['here'] });
  expect(stderr).toContain('  /srv/other\\u001b\n');
  expect(stderr).not.toContain('/srv/none');
});

test('an imported server is held to what was shown', async () => {
  const file = writeFileAt('project/.mcp.json', { mcpServers: { local: { command: 'node', args: ['server.js'] } } });
  writeFileAt('project/server.js', 'one');
  await ambit(file, '--yes');
  const list = () => ambitInProcess(['server', 'list', '--config', configFile, '--data-dir', dataDir()]);
  expect((await list()).stdout).toMatch(/^local .* approved /m);
  writeFileAt('project/server.js', 'two');
  expect((await list()).stdout).toMatch(/^local .* changed /m);
});

test('S2: a file that may hold a secret is made private, and undo keeps it so', async () => {
  const others: Record<string, unknown>[] = [
    { command: 'node', env: { API_KEY: 'sk-secret' } },
    { command: 'node', args: ['--key', 'sk-secret'] },
    { url: 'https://h/mcp', headers: { Authorization: 'Bearer sk-secret' } },
    { url: 'https://h/mcp?key=sk-secret' },
  ];
  const mode = () => statSync(configFile).mode & 0o777;
  for (const server of others) {
    writeFileSync(configFile, commented);
    chmodSync(configFile, 0o644);
    const file = writeFileAt('servers.json', { mcpServers: { added: server } });
    const { code, stderr } = await ambit(file, '--yes');
    expect([code, mode()]).toEqual([0, 0o600]);
    expect(stderr).toContain('Only you can read it (mode 0600 instead of 0644)');
  }
  // What comes back may hold as much.
  chmodSync(configFile, 0o640);
  expect(await ambit('--undo', '--yes')).toMatchObject({ code: 0, stderr: expect.stringContaining('instead of 0640') });
  expect(mode()).toBe(0o600);
});

test('S2: without a secret the mode stays', async () => {
  chmodSync(configFile, 0o644);
  const { stderr } = await ambit(writeFileAt('servers.json', { mcpServers: { added: { command: 'node' } } }), '--yes');
  expect(stderr).not.toContain('mode');
  expect(statSync(configFile).mode & 0o777).toBe(0o644);
});

test('undo follows no link in the place of a backup', async () => {
  const other = writeFileAt('other.yaml', 'version: 1\n# secret of another user\n');
  symlinkSync(other, `${configFile}.2999-01-01T00-00-00-000Z.backup`);
  const { code, stderr } = await ambit('--undo', '--yes');
  expect({ code, text: readFileSync(configFile, 'utf8') }).toEqual({ code: 1, text: commented });
  expect(stderr).toContain('There is no backup');
});

test('undo names settings and servers that were changed after the import', async () => {
  const file = writeFileAt('shop.json', { mcpServers: { added: { command: 'node' } } });
  expect((await ambit(file, '--yes')).code).toBe(0);
  const changed = readFileSync(configFile, 'utf8').replace('/srv/w }', '/srv/w, trust: sandboxed }');
  writeFileSync(configFile, changed.replace('[notes.js]', '[other.js]'));
  const { code, stderr } = await ambit('--undo', '--yes');
  expect({ code, text: readFileSync(configFile, 'utf8') }).toEqual({ code: 0, text: commented });
  expect(stderr).toContain('- added\n~ notes\nOther settings go back too: workspaces.\n');
});
