import { execFile } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import { globalFlags } from '../../src/cli/command.ts';
import { commands, loadCommand } from '../../src/cli/commands.ts';
import { loadConfig } from '../../src/config/load/load.ts';
import { listKeysAt } from '../../src/config/schema/json-schema.ts';
import { createGateway } from '../../src/index.ts';
import { readSourceFiles, repository } from './source-files.ts';

/** The tutorial and the how-to pages are run by test/journeys/pages. This checks the snippets of all pages. */
const rootPages = ['README.md', 'CONTRIBUTING.md', 'SECURITY.md', 'ARCHITECTURE.md', 'GLOSSARY.md'];
const pages = [
  ...readSourceFiles('docs', /\.md$/),
  ...rootPages.map((path) => ({ path, text: readFileSync(join(repository, path), 'utf8') })),
];

const run = promisify(execFile);

function listBlocks(language: string, chosen = pages): { path: string; code: string }[] {
  const fence = new RegExp(`^ *\`\`\`${language}\n([\\s\\S]*?)^ *\`\`\`$`, 'gm');
  return chosen.flatMap(({ path, text }) => [...text.matchAll(fence)].map(([, code = '']) => ({ path, code })));
}

test('every YAML block is a valid configuration, or a part of one', async () => {
  const keys = listKeysAt([]);
  // Configuration of another program: the block is not read.
  const foreign = new Set(['scrape_configs']);
  const blocks = listBlocks('ya?ml').filter(({ code }) => !foreign.has(/^(\w+):/m.exec(code)?.[1] ?? ''));
  expect(blocks.length).toBeGreaterThan(40);
  const problems: string[] = [];
  for (const { path, code } of blocks) {
    const own = [...code.matchAll(/^([\w$]+):/gm)].map(([, key]) => key as string);
    const version = own.includes('version') ? '' : 'version: 1\n';
    const isPart = own.length > 0 && own.every((key) => keys.includes(key));
    const read = loadConfig({ text: `${version}${code}`, file: join(repository, 'ambit.yaml') });
    const problem = isPart ? await read.then(() => undefined, String) : `its keys are ${own.join(', ')}`;
    if (problem !== undefined) problems.push(`${path}: ${problem}\n${code}`);
  }
  expect(problems).toEqual([]);
});

test('every TypeScript block type-checks', async () => {
  // The pages for contributors show excerpts, which docs-pages.test.ts compares with the source.
  const blocks = listBlocks('ts').filter(({ path }) => !path.startsWith('docs/contributing/'));
  expect(blocks.length).toBeGreaterThanOrEqual(4);
  // In the repository, so that "ambit-mcp" is the package that was built.
  mkdirSync(join(repository, 'build'), { recursive: true });
  const folder = mkdtempSync(join(repository, 'build', 'docs-snippets-'));
  const save = (name: string, text: string) => writeFileSync(join(folder, name), text);
  try {
    for (const [index, { code }] of blocks.entries()) {
      const setting =
        "import { secureServer } from 'ambit-mcp/sdk';\nimport type { McpServer } from '@modelcontextprotocol/server';\ndeclare const server: McpServer;\n";
      save(`block-${index}.ts`, `${code.includes('import ') ? '' : setting}${code}`);
    }
    const store = "import type { SessionStore, StoreOptions } from 'ambit-mcp/stores';\n";
    save('my-store.ts', `${store}export declare function openMyStore(options: StoreOptions): Promise<SessionStore>;\n`);
    save('tsconfig.json', JSON.stringify({ extends: '../../tsconfig.json', include: ['.'], exclude: [] }));
    const checked = run(join(repository, 'node_modules/.bin/tsc'), ['-p', folder, '--singleThreaded']);
    expect(
      await checked.then(
        () => '',
        ({ stdout }: { stdout: string }) => stdout,
      ),
    ).toBe('');
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});

/** The command lines of a page: inline, and in shell blocks. */
function listCommandLines(text: string): string[] {
  const shell = [...text.matchAll(/^ *```sh\n([\s\S]*?)^ *```$/gm)].flatMap(([, code = '']) =>
    code
      .replaceAll('\\\n', ' ')
      .split('\n')
      .map((line) => line.replace(/(^|\s)#.*$/, ''))
      .flatMap((line) => [...line.matchAll(/(?:^|[\s;&|(])(?:npx )?ambit(?:-mcp)? ([^|;&<>)]*)/g)])
      .map(([, words = '']) => words),
  );
  const prose = text.replace(/^ *```[\s\S]*?^ *```$/gm, '');
  const inline = [...prose.matchAll(/`(?:npx )?ambit(?:-mcp)? ([^`]+)`/g)].map(([, words = '']) => words);
  return [...shell, ...inline];
}

test('every command line names a command and flags that exist', async () => {
  const nouns = new Set(commands.map(({ path }) => path[0] as string));
  // Words that the command line handles apart from its table.
  const others = new Set(['help', 'completion', '--help', '--version', '…']);
  const loaded = await Promise.all(commands.map(loadCommand));
  const findProblem = (line: string): string | undefined => {
    // In a synopsis, "[--flag V]" is optional, "(a | b)" is a choice and "…" repeats.
    const [own = ''] = line.replaceAll('\\|', '|').split(/(?:^| )--(?: |$)/);
    const words = own.match(/"[^"]*"|'[^']*'|[^\s"'[\]()]+/g)?.map((word) => word.replace(/[….,:]+$/, '')) ?? [];
    const plain = words.filter(
      (word, i) => !word.startsWith('-') && !/^--(?:config|data-dir)$/.test(words[i - 1] ?? ''),
    );
    const [noun = '', verb = ''] = plain;
    if (others.has(words[0] ?? '') || noun === '') return undefined;
    if (!nouns.has(noun)) return `there is no command "${noun}"`;
    const ofNoun = loaded.filter(({ path }) => path[0] === noun);
    const isSingle = ofNoun.some(({ path }) => path.length === 1);
    const verbs = verb.split('|');
    const missing =
      isSingle || verb === '' ? undefined : verbs.find((each) => !ofNoun.some(({ path }) => path[1] === each));
    if (missing !== undefined) return `"${noun}" has no "${missing}"`;
    const meant = isSingle || verb === '' ? ofNoun : ofNoun.filter(({ path }) => verbs.includes(path[1] as string));
    const flags = new Set([...meant.flatMap((each) => Object.keys(each.flags)), ...Object.keys(globalFlags)]);
    const given = words.flatMap((word) => word.split('|')).filter((word) => /^--\w/.test(word));
    const unknown = given.map((flag) => flag.slice(2).replace(/=.*/, '')).find((flag) => !flags.has(flag));
    return unknown === undefined ? undefined : `there is no flag "--${unknown}"`;
  };
  expect(findProblem('session create --wrkspace W')).toBe('there is no flag "--wrkspace"');
  expect(findProblem('sessoin list')).toBe('there is no command "sessoin"');
  expect(findProblem('session lst')).toBe('"session" has no "lst"');
  const lines = pages.flatMap(({ path, text }) => listCommandLines(text).map((line) => ({ path, line })));
  expect(lines.length).toBeGreaterThan(200);
  const wrong = lines.flatMap(({ path, line }) => {
    const problem = findProblem(line);
    return problem === undefined ? [] : [`${path}: ambit ${line.trim()}: ${problem}`];
  });
  expect(wrong).toEqual([]);
});

test('the requests on the reference pages are answered', async () => {
  const reference = pages.filter(({ path }) => path.startsWith('docs/reference/'));
  const requests = listBlocks('sh', reference).filter(({ code }) => code.startsWith('curl '));
  expect(requests.map(({ path }) => path.slice('docs/reference/'.length))).toEqual(['api.md', 'http.md', 'metrics.md']);
  const folder = mkdtempSync(join(tmpdir(), 'ambit-requests-'));
  mkdirSync(join(folder, 'my-project'));
  const dataDir = join(folder, 'data');
  const config = { version: 1 as const, workspaces: { 'my-project': { path: join(folder, 'my-project') } } };
  const gateway = await createGateway({ config, dataDir, log: { info() {}, warn() {} } });
  try {
    const { url } = await gateway.listen({ port: 0 });
    const { token } = await gateway.createSession({});
    const env = { PATH: process.env.PATH, AMBIT_DATA_DIR: dataDir, AMBIT_SESSION_TOKEN: token };
    const answers = requests.map(async ({ code }) => {
      const script = code.replace('http://127.0.0.1:7420', url).replace('curl ', 'curl -sS --fail ');
      return (await run('bash', ['-euo', 'pipefail', '-c', script], { env })).stdout;
    });
    const [opened = '', listed = '', metrics = ''] = await Promise.all(answers);
    expect(JSON.parse(opened)).toMatchObject({ userId: 'ada', workspaceId: 'my-project', ttlSeconds: 900 });
    expect(JSON.parse(listed)).toMatchObject({ id: 1, result: { tools: expect.arrayContaining([]) } });
    expect(metrics).toContain('ambit_sessions_opened_total');
  } finally {
    await gateway.close();
    rmSync(folder, { recursive: true, force: true });
  }
});
