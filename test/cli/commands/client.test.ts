import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { parse as parseJson } from 'jsonc-parser';
import { parse as parseToml } from 'smol-toml';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { findUserFolders, mcpClients } from '../../../src/cli/client/clients.ts';
import type { ExitedCommand } from '../../journeys/start-ambit.ts';
import { publishedFormats } from '../client/published-formats.ts';
import { ambitInProcess } from '../in-process.ts';

let home: string;
let configFile: string;
beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), 'ambit-client-'));
  const workspace = join(home, 'shop');
  mkdirSync(workspace);
  const notes = { command: process.execPath, args: [join(import.meta.dirname, '../../../examples/notes/notes.mjs')] };
  const config = { version: 1, servers: { notes }, workspaces: { shop: { path: workspace, trust: 'direct' } } };
  configFile = writeFileAt('.config/ambit/ambit.yaml', JSON.stringify(config));
});
afterEach(() => rmSync(home, { recursive: true, force: true }));

function writeFileAt(path: string, text: string): string {
  const file = join(home, path);
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, text);
  return file;
}

const environment = () => ({
  ...{ HOME: home, XDG_CONFIG_HOME: join(home, '.config'), AMBIT_DATA_DIR: '', AMBIT_CONFIG: configFile },
  ...{ CLAUDE_CONFIG_DIR: '', CODEX_HOME: '', GEMINI_CLI_HOME: '' },
});
const ambit = (...args: string[]): Promise<ExitedCommand> => ambitInProcess(['client', ...args], environment());
const fileOf = (name: string) => {
  const client = mcpClients.find((each) => each.name === name);
  return client?.files(findUserFolders(environment()))[0] as string;
};
const read = (file: string): unknown => {
  const text = readFileSync(file, 'utf8');
  return file.endsWith('.toml') ? parseToml(text) : (parseJson(text) as unknown);
};
const names = mcpClients.map(({ name }) => name);
const url = 'http://127.0.0.1:7420';

test.each(names)('%s: both forms follow the published format, and undo removes what was created', async (name) => {
  const file = fileOf(name);
  const printed = await ambit(name, '--json', '--workspace', 'shop', '--trust', 'sandboxed');
  expect(printed.code).toBe(0);
  const { entry, snippet } = JSON.parse(printed.stdout) as { entry: Record<string, string[]>; snippet: string };
  const words = [entry['command'], entry['args'] ?? []].flat(2);
  expect(words).toContain(configFile);
  expect(words.slice(-4)).toEqual(['--workspace', 'shop', '--trust', 'sandboxed']);
  expect(existsSync(file)).toBe(false);

  const written = await ambit(name, '--write', '--yes', '--workspace', 'shop', '--trust', 'sandboxed');
  expect(written).toMatchObject({ code: 0, stdout: `Wrote ${file}.\n` });
  expect(readFileSync(file, 'utf8')).toBe(snippet);
  expect(statSync(file).mode & 0o777).toBe(0o600);
  publishedFormats[name]?.parse(read(file));

  const byUrl = await ambit(name, '--write', '--yes', '--url', url);
  const isRefused = ['claude-desktop', 'zed'].includes(name);
  expect(byUrl.code).toBe(isRefused ? 1 : 0);
  if (isRefused) expect(byUrl.stderr).toContain('Leave out --url');
  else {
    publishedFormats[name]?.parse(read(file));
    expect(readFileSync(file, 'utf8')).toContain(`${url}/mcp`);
    expect(readFileSync(file, 'utf8')).toMatch(/AMBIT_SESSION_TOKEN|\$\{input:ambit-session-token\}/);
    expect((await ambit(name, '--undo', '--yes')).code).toBe(0);
    expect(readFileSync(file, 'utf8')).toBe(snippet);
  }
  expect(await ambit(name, '--undo', '--yes')).toMatchObject({ code: 0, stdout: `Removed ${file}.\n` });
  expect(existsSync(file)).toBe(false);
});

const secrets = `{
  // sk-comment
  "mcpServers": {
    "notes": { "command": "node", "env": { "KEY": "sk-secret" } }, // sk-beside
    "ambit": { "command": "old", "env": { "TOKEN": "sk-own" } },
  },
}
`;

test('a file with comments and secrets: nothing of them is shown, the mode stays, and undo restores every byte', async () => {
  const file = writeFileAt('.cursor/mcp.json', secrets);
  chmodSync(file, 0o664);
  const { code, stdout, stderr } = await ambit('cursor', '--write', '--yes', '--json');
  expect(code).toBe(0);
  expect(stdout + stderr).not.toContain('sk-');
  expect(stderr).toMatch(/^-.*"ambit": \{ "command": "old", "env": \{ "TOKEN": "…" \} \}/m);
  expect(stderr).toMatch(/^\+.*"--config",$/m);
  expect(stderr).toContain('! Without --workspace, the servers get no project folder. Workspaces: shop\n');
  expect(stderr).toContain('! Cursor also uses these servers directly, without Ambit: notes\n');
  const { backup } = JSON.parse(stdout) as { backup: string };
  expect(readFileSync(backup, 'utf8')).toBe(secrets);
  expect(statSync(backup).mode & 0o777).toBe(0o600);
  expect(statSync(file).mode & 0o777).toBe(0o664);
  const written = readFileSync(file, 'utf8');
  for (const line of secrets.split('\n').filter((each) => !each.includes('"ambit"'))) expect(written).toContain(line);
  const again = await ambit('cursor', '--write', '--yes');
  expect(again).toMatchObject({ code: 0, stdout: `${file} is set up already.\n` });
  expect((await ambit('cursor', '--undo', '--yes')).stderr).not.toContain('sk-');
  expect(readFileSync(file, 'utf8')).toBe(secrets);
  expect(existsSync(backup)).toBe(false);
});

test('a file that has changed since: undo puts back the entry only', async () => {
  const file = writeFileAt('.config/Code/User/mcp.json', '{ "servers": { "ambit": { "command": "old" } } }\n');
  await ambit('vscode', '--write', '--yes', '--url', url);
  const changed = readFileSync(file, 'utf8').replace('"inputs"', '"servers2": { "kept": true }, "inputs"');
  writeFileSync(file, changed);
  const { code, stderr } = await ambit('vscode', '--undo', '--yes');
  expect(code).toBe(0);
  expect(stderr).toContain('has changed since');
  expect(read(file)).toEqual({ servers: { ambit: { command: 'old' } }, servers2: { kept: true }, inputs: [] });
  expect(readdirSync(dirname(file)).filter((each) => each.endsWith('.backup'))).toEqual([]);
});

test('without a terminal and without --yes nothing is written', async () => {
  const { code, stderr } = await ambit('cursor', '--write');
  expect(code).toBe(2);
  expect(stderr).toContain('--yes');
  expect(existsSync(fileOf('cursor'))).toBe(false);
});

test('a file that cannot be edited is left alone, and the snippet is printed', async () => {
  const text = '[mcp_servers]\nambit = { command = "x" }\n';
  const file = writeFileAt('.codex/config.toml', text);
  const { code, stdout, stderr } = await ambit('codex', '--write', '--yes');
  expect(code).toBe(1);
  expect(stdout).toContain('[mcp_servers.ambit]\ncommand = ');
  expect(stderr).toContain('Add the entry above by hand.');
  expect(readFileSync(file, 'utf8')).toBe(text);
  expect(readdirSync(dirname(file))).toEqual([basename(file)]);
});

test('links: of the user they are followed, dangling ones and ones out of a project are refused', async () => {
  const real = writeFileAt('dotfiles/claude.json', '{}');
  symlinkSync(real, fileOf('claude-code'));
  expect((await ambit('claude-code', '--write', '--yes')).code).toBe(0);
  expect(JSON.stringify(read(real))).toContain('stdio');
  symlinkSync(join(home, 'gone.json'), writeFileAt('.config/zed/x', '').replace(/x$/, 'settings.json'));
  expect((await ambit('zed', '--write', '--yes')).stderr).toContain('is a link to a file that does not exist');

  const before = process.cwd();
  process.chdir(join(home, 'shop'));
  try {
    symlinkSync(dirname(real), join(home, 'shop', '.cursor'));
    const { code, stderr } = await ambit('cursor', '--project', '--write', '--yes');
    expect(code).toBe(1);
    expect(stderr).toContain('leads out of the project');
    expect((await ambit('opencode', '--project', '--write', '--yes')).code).toBe(0);
    expect(existsSync('opencode.json')).toBe(true);
    expect((await ambit('claude-desktop', '--project')).code).toBe(2);
  } finally {
    process.chdir(before);
  }
});

test('a folder whose name holds control characters and line ends cannot forge output', async () => {
  const folder = join(home, 'a\u001b[31m\u009b\nWrote b');
  mkdirSync(folder);
  const before = process.cwd();
  process.chdir(folder);
  try {
    for (const flags of [['--write'], ['--write'], [], ['--json'], ['--undo'], ['--undo']]) {
      const { stdout, stderr } = await ambit('claude-code', '--project', '--yes', ...flags);
      expect(stdout + stderr).toContain('.mcp.json');
      expect(stdout + stderr).not.toMatch(/[\u001b\u009b]|^(?:ambit: )?Wrote b/m);
    }
  } finally {
    process.chdir(before);
  }
});

test('the list says which clients are set up', async () => {
  writeFileAt('.cursor/mcp.json', secrets);
  writeFileAt('.gemini/settings.json', '{}');
  writeFileAt('.config/zed/settings.json', '{');
  const { stdout, stderr } = await ambit();
  expect(stdout).toMatch(/^CLIENT +FILE +SET UP\nclaude-code +~\/\.claude\.json +-\n/);
  expect(stdout).toMatch(/^cursor +~\/\.cursor\/mcp\.json +yes$/m);
  expect(stdout).toMatch(/^gemini .* no$/m);
  for (const line of stdout.split('\n')) expect(line.length).toBeLessThanOrEqual(80);
  expect(stderr).toMatch(/^! .*settings\.json: it is not valid JSON/);
  const { clients } = JSON.parse((await ambit('--json')).stdout) as { clients: { setUp: boolean | null }[] };
  expect(clients.map(({ setUp }) => setUp)).toEqual([null, null, true, null, null, false, null, null]);
});

test.each([
  ['cursr', 2, 'ambit: NAME takes "claude-code"'],
  ['cursr', 2, 'did you mean "cursor"?'],
  ['cursor --workspace shap', 1, 'did you mean "shop"?'],
  ['cursor --trust full', 2, '"direct" or "sandboxed"'],
  ['cursor --url ftp://h', 2, '--url takes a URL'],
  ['cursor --url http://a:b@h/mcp', 2, 'may not contain a credential'],
  ['cursor --url http://h/?t=ambs_a_b', 2, 'may not contain a credential'],
  ['cursor --url http://h --trust direct', 2, 'the session of the token decides'],
  ['cursor --undo', 1, 'nothing to undo'],
  ['--write', 2, 'NAME is missing'],
  ['cursor --write --undo', 2, 'either --write or --undo'],
])('ambit client %s', async (line, code, message) => {
  const result = await ambit(...line.split(' '));
  expect(result.stderr).toContain(message);
  expect(result.code).toBe(code);
});

test('an agent that could change the file of a client is named', async () => {
  writeFileSync(configFile, JSON.stringify({ version: 1, workspaces: { all: { path: home } } }));
  expect((await ambit('cursor')).stderr).toContain('mcp.json is in the workspace "all": an agent could change');
});

test('the command that was written starts without PATH, and lists the tools', async () => {
  await ambit('cursor', '--write', '--yes', '--data-dir', join(home, 'data'), '--trust', 'direct');
  const { mcpServers } = read(fileOf('cursor')) as { mcpServers: Record<string, { command: string; args: string[] }> };
  const { command, args } = mcpServers['ambit'] as { command: string; args: string[] };
  const client = new Client({ name: 'cursor', version: '1' });
  await client.connect(new StdioClientTransport({ command, args, env: { HOME: home }, cwd: '/', stderr: 'ignore' }));
  const { tools } = await client.listTools();
  await client.close();
  const offered = tools.map(({ name }) => name);
  expect(offered).toContain('session_info');
  expect(offered.some((name) => name.startsWith('notes__'))).toBe(true);
});
