import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { copyFile, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { loadConfig } from '../../src/config/load/load.ts';
import { ambitInProcess } from '../cli/in-process.ts';
import { hasBwrap } from '../needs/bwrap.ts';
import { layerNames } from './layers.ts';
import { readSourceFiles, repository } from './source-files.ts';

/** What the pages show is run here, so that it stays true. */
const pages = [
  ...readSourceFiles('docs', /\.md$/),
  { path: 'README.md', text: await readFile(join(repository, 'README.md'), 'utf8') },
];

function blocks(path: string, language: string): string[] {
  const text = pages.find((page) => page.path === path)?.text ?? '';
  return [...text.matchAll(new RegExp(`^\`\`\`${language}\n([\\s\\S]*?)^\`\`\`$`, 'gm'))].map(
    (match) => match[1] as string,
  );
}

const ambit = `${process.execPath} ${join(repository, 'bin', 'ambit.js')}`;
let folder: string;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'ambit-docs-'));
});
afterAll(() => rm(folder, { recursive: true, force: true }));

async function shell(script: string, env: NodeJS.ProcessEnv, cwd = repository): Promise<string> {
  const { stdout } = await promisify(execFile)(
    'bash',
    ['-euo', 'pipefail', '-c', script.replaceAll('npx ambit', ambit)],
    {
      cwd,
      env: { ...process.env, ...env },
    },
  );
  return stdout;
}

/** A line that no shell would change: it needs neither one nor a process. */
async function command(line: string, env: NodeJS.ProcessEnv, cwd: string): Promise<string> {
  expect(line).toMatch(/^npx ambit [\w ./-]+$/);
  const before = process.cwd();
  process.chdir(cwd);
  try {
    const { code, stdout, stderr } = await ambitInProcess(line.split(' ').slice(2), env);
    expect(code, stderr).toBe(0);
    return stdout;
  } finally {
    process.chdir(before);
  }
}

async function stopped(child: ChildProcess): Promise<void> {
  if (child.exitCode === null && child.signalCode === null) {
    const exited = once(child, 'exit');
    child.kill('SIGTERM');
    await exited;
  }
}

describe('the tutorial', () => {
  let demo: ChildProcess;
  let said = '';
  const env = () => ({ AMBIT_DATA_DIR: join(folder, 'demo') });

  beforeAll(async () => {
    demo = spawn(process.execPath, ['examples/demo/start.js', '--port', '0'], {
      cwd: repository,
      env: { ...process.env, ...env() },
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    for await (const chunk of demo.stdout as NodeJS.ReadableStream) {
      said += chunk.toString();
      if (said.includes('Ctrl-C')) break;
    }
  });
  afterAll(() => stopped(demo));

  test('npm start says where it listens, shows two sessions, and keeps the token out of what it prints', async () => {
    expect(said).toMatch(/http:\/\/127\.0\.0\.1:\d+\/mcp/);
    expect(said).toMatch(/demo-garden.*direct/);
    expect(said).toMatch(/demo-kitchen.*sandboxed/);
    expect(said).not.toContain('ambs_');
    const file = /in (\S+demo-client\.json)/.exec(said)?.[1] ?? '';
    expect(await readFile(file, 'utf8')).toContain('Bearer ambs_');
  });

  test('every command of it works, in order', async () => {
    const url = /http:\/\/127\.0\.0\.1:\d+/.exec(said)?.[0] ?? '';
    const [start, ...rest] = blocks('docs/tutorial/first-session.md', 'sh');
    expect(start).toBe('npm ci && npm start\n');
    const outputs: string[] = [];
    for (const block of rest) outputs.push(await shell(block.replaceAll('http://127.0.0.1:7420', url), env()));
    expect(outputs[0]).toContain('demo-garden');
    expect(outputs[1]).toContain('task-49');
    expect(outputs.join('\n')).toContain('Kept. There are');
    expect(outputs.at(-1)).toContain('has ended');
  });
});

test('the sessions of the how-to and of the README are opened and ended', async () => {
  const [yaml] = blocks('docs/how-to/open-sessions-for-agents.md', 'yaml');
  const { config } = await loadConfig({ text: yaml as string, file: join(folder, 'ambit.yaml') });
  expect(Object.keys(config.servers)).toEqual(['notes', 'search']);
  const workspace = join(folder, 'my-project');
  const etc = join(folder, 'etc');
  await mkdir(workspace);
  await mkdir(etc);
  await writeFile(join(etc, 'ambit.yaml'), (yaml as string).replace('/srv/projects/my-project', workspace));
  const env = { AMBIT_DATA_DIR: join(folder, 'how-to') };
  const gateway = spawn('bash', ['-c', `exec ${ambit} serve --config ambit.yaml --port 0 --json`], {
    cwd: etc,
    env: { ...process.env, ...env },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  try {
    await once(gateway.stdout, 'data');
    for (const page of ['docs/how-to/open-sessions-for-agents.md', 'README.md']) {
      const block = blocks(page, 'sh').find((text) => text.includes('session create')) ?? '';
      const lines = block.split('\n').filter((line) => line.includes('ambit session'));
      expect(lines).toHaveLength(2);
      const created = JSON.parse(await command(lines[0] as string, env, etc)) as { token: string; workspaceId: string };
      expect(created).toMatchObject({ workspaceId: 'my-project', userId: 'ada', agentId: 'coder' });
      expect(await command(lines[1] as string, env, etc)).toContain('has ended');
    }
  } finally {
    await stopped(gateway);
  }
});

test('an agent SDK is handed its servers, as the how-to says', async () => {
  const page = 'docs/how-to/resolve-for-an-agent-sdk.md';
  const etc = join(folder, 'resolve');
  const workspace = join(folder, 'resolved-project');
  await Promise.all([mkdir(etc), mkdir(workspace)]);
  const [yaml] = blocks(page, 'yaml');
  await writeFile(join(etc, 'ambit.yaml'), (yaml as string).replaceAll('/srv/projects/my-project', workspace));
  const env = { AMBIT_DATA_DIR: join(folder, 'resolve-data') };
  const gateway = spawn('bash', ['-c', `exec ${ambit} serve --config ambit.yaml --port 0 --json`], {
    cwd: etc,
    env: { ...process.env, ...env },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  try {
    await once(gateway.stdout, 'data');
    const lines = (blocks(page, 'sh')[0] as string).trim().split('\n');
    const said: string[] = [];
    for (const line of lines) said.push(await command(line, env, etc));
    const [created, resolved, viaGateway, explained] = said as [string, string, string, string];
    const { id } = JSON.parse(created) as { id: string };
    expect(JSON.parse(resolved)).toMatchObject({
      mcpServers: { notes: { command: 'node', env: { NOTES_DIR: `${workspace}/notes`, AMBIT_SESSION_ID: id } } },
    });
    expect(viaGateway).toMatch(/Bearer ambs_/);
    expect(explained).toMatch(/^search +out .*\n.*workspaces\.my-project\.capabilities\.servers/m);
  } finally {
    await stopped(gateway);
  }
  const [code] = blocks(page, 'js');
  const args = ['--input-type=module', '-e', code as string];
  const { stdout } = await promisify(execFile)(process.execPath, args, { cwd: repository });
  expect(stdout).toBe('sess-1\npinned\n');
});

test.skipIf(!hasBwrap())('ambit run wraps a server, as the how-to says', async () => {
  const [block] = blocks('docs/how-to/wrap-one-server.md', 'sh');
  const here = join(folder, 'wrap');
  await mkdir(here);
  await copyFile(join(repository, 'bench/trivial-server.js'), join(here, 'notes.js'));
  const hello = JSON.stringify({
    jsonrpc: '2.0',
    id: 1,
    method: 'initialize',
    params: { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'docs', version: '1' } },
  });
  const said = await shell(
    `echo '${hello}' | ${(block as string).trim()}`,
    { AMBIT_DATA_DIR: join(folder, 'run') },
    here,
  );
  expect(JSON.parse(said)).toMatchObject({ id: 1, result: { protocolVersion: '2025-11-25' } });
});

test('the library pages run', async () => {
  const run = async (code: string) => {
    const script = code.replace('/tmp/my-gateway', join(folder, 'library'));
    const args = ['--input-type=module', '-e', script];
    return (await promisify(execFile)(process.execPath, args, { cwd: repository })).stdout;
  };
  const said = await Promise.all(blocks('docs/how-to/use-the-library.md', 'js').map(run));
  for (const each of said) expect(each).toMatch(/\/mcp|notes__add_note/);
});

test('every JSON block parses', () => {
  for (const page of pages)
    for (const block of blocks(page.path, 'json')) expect(() => JSON.parse(block)).not.toThrow();
});

test('every page is in the index', () => {
  const index = pages.find(({ path }) => path === 'docs/README.md')?.text ?? '';
  const shelves = /^docs\/(?:tutorial|how-to|reference|explanation|contributing)\//;
  const missing = pages.filter(({ path }) => shelves.test(path) && !index.includes(`](${path.slice('docs/'.length)})`));
  expect(missing.map(({ path }) => path)).toEqual([]);
});

test('every link to a page or file of the repository leads somewhere', () => {
  const names = ['ARCHITECTURE', 'GLOSSARY', 'SECURITY', 'CONTRIBUTING'].map((name) => `${name}.md`);
  const others = names.map((path) => ({ path, text: readFileSync(join(repository, path), 'utf8') }));
  for (const page of [...pages, ...others]) {
    for (const [, target] of page.text.matchAll(/\]\((?!https?:)([^)#]+)(?:#[^)]*)?\)/g)) {
      const path = join(page.path, '..', target as string);
      expect(existsSync(join(repository, path)), `${page.path} → ${target}`).toBe(true);
    }
  }
});

test('every path of the source that a page for contributors names exists', () => {
  const architecture = { path: 'ARCHITECTURE.md', text: readFileSync(join(repository, 'ARCHITECTURE.md'), 'utf8') };
  const path = new RegExp(`\`((?:src|test|scripts|${layerNames.join('|')})/[a-z0-9./-]+)\``, 'g');
  const named = [architecture, ...pages.filter((page) => page.path.startsWith('docs/contributing/'))].flatMap((page) =>
    [...page.text.matchAll(path)].map(([, found = '']) => `${page.path}: ${found}`),
  );
  expect(named.length).toBeGreaterThan(30);
  const exists = (found: string) => ['', 'src'].some((folder) => existsSync(join(repository, folder, found)));
  // Files that a reader of these pages makes.
  const isExample = (found: string) => /firejail|postgres/.test(found);
  expect(named.filter((each) => !isExample(each) && !exists(each.replace(/^.*: /, '')))).toEqual([]);
});

test('the code on the pages for contributors is in the source', () => {
  const flatten = (text: string) => text.replace(/\s+/g, ' ');
  const excerpts = pages
    .filter(({ path }) => path.startsWith('docs/contributing/'))
    .flatMap(({ text }) => [...text.matchAll(/```ts\s+\/\/ (\S+)\n([\s\S]*?)```/g)]);
  expect(excerpts.length).toBe(pages.filter(({ path }) => path.startsWith('docs/contributing/')).length);
  for (const [, file = '', code = ''] of excerpts) {
    expect(flatten(readFileSync(join(repository, file), 'utf8')), file).toContain(flatten(code).trim());
  }
});
