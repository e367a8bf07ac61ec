import { readdirSync, renameSync, rmSync, statSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { createFileTools, createPathRules, openLocalBackend } from '../../../src/public/workspaces/index.ts';
import type { EmbeddingProvider } from '../../../src/workspaces/codebase/embeddings.ts';
import { makeTree, openCodebase } from '../codebase/open-codebase.ts';

const sources = {
  'src/session-store.ts':
    'import { open } from "./db";\n\n/** Refuses tokens that are too old. */\nexport function checkExpiry(token) {\n  if (token.end < now()) throw new ExpiredTokenError();\n}\n',
  'src/http/listen.ts':
    'export function startListener(port) {\n  // The port is taken from the settings.\n  return bind(port);\n}\n',
  'docs/guide.md': '# Install\n\nRun the installer.\n\n## Upgrade\n\nStop the gateway first.\n',
  'README.md': 'A gateway.\n',
};

test('W1: a question in words finds the passage, with its lines and the reason', async () => {
  const { ask } = openCodebase(makeTree(sources));
  const { matches, index } = await ask('where are expired tokens refused');
  expect(index).toEqual({ state: 'ready', files: 4, total: 4, partial: false });
  expect(matches[0]).toEqual({
    path: 'src/session-store.ts',
    startLine: 1,
    endLine: 6,
    text: sources['src/session-store.ts'].trimEnd(),
    why: 'contains ExpiredTokenError, tokens, Refuses',
  });
  expect((await ask('start_listener')).matches[0]).toMatchObject({
    path: 'src/http/listen.ts',
    why: 'defines startListener',
  });
  expect((await ask('how do I upgrade the guide')).matches[0]).toMatchObject({ path: 'docs/guide.md', startLine: 1 });
});

test('W1: a folder or a file limits the search', async () => {
  const { find } = openCodebase(makeTree({ ...sources, 'src/http2/listen.ts': 'export const listener = 1;\n' }));
  expect(await find('listener', 'src/http')).toEqual(['src/http/listen.ts']);
  expect(await find('gateway', 'README.md')).toEqual(['README.md']);
  await expect(find('gateway', '../..')).rejects.toMatchObject({ code: 'PATH_VIOLATION' });
});

test('W1: changes of files are found: new, other, moved and removed ones', async () => {
  const folder = makeTree(sources);
  const { find, ask } = openCodebase(folder);
  expect(await find('zeppelin')).toEqual([]);
  writeFileSync(join(folder, 'src/new.ts'), 'const zeppelin = 1;\n');
  expect(await find('zeppelin')).toEqual(['src/new.ts']);
  renameSync(join(folder, 'src'), join(folder, 'lib'));
  expect(await find('zeppelin')).toEqual(['lib/new.ts']);
  rmSync(join(folder, 'lib'), { recursive: true });
  expect(await find('zeppelin')).toEqual([]);
  expect((await ask('zeppelin')).index.total).toBe(2);
});

test('W1: a passage that has changed since it was indexed is shown as it is now', async () => {
  const folder = makeTree({ 'a.ts': 'const heron = 1;\n', 'b.ts': 'const other = 2;\n' });
  const { ask, askAtOnce } = openCodebase(folder);
  expect((await ask('heron')).matches).toHaveLength(1);
  const { atime, mtime } = statSync(join(folder, 'a.ts'));
  writeFileSync(join(folder, 'a.ts'), 'const egret = 1;\n');
  // The same size and time: only reading the file shows the change.
  utimesSync(join(folder, 'a.ts'), atime, mtime);
  expect((await askAtOnce('heron')).matches).toEqual([]);
});

test('W1: the index stays for the next process, is private, and is made anew when it is damaged', async () => {
  const dataDir = makeTree({});
  const folder = makeTree(sources);
  const first = openCodebase(folder, { dataDir });
  expect(await first.find('expired tokens')).toEqual(['src/session-store.ts']);
  await first.close();
  const [name = ''] = readdirSync(join(dataDir, 'search')).filter((each) => each.endsWith('.db'));
  const file = join(dataDir, 'search', name);
  expect(statSync(file).mode & 0o777).toBe(0o600);
  expect(statSync(join(dataDir, 'search')).mode & 0o777).toBe(0o700);
  const before = statSync(file).ino;

  const second = openCodebase(folder, { dataDir });
  expect(await second.find('expired tokens')).toEqual(['src/session-store.ts']);
  await second.close();
  expect(statSync(file).ino).toBe(before);

  writeFileSync(file, 'not a database'.repeat(1000));
  const third = openCodebase(folder, { dataDir });
  expect(await third.find('expired tokens')).toEqual(['src/session-store.ts']);
  expect(third.failures).toEqual([]);
});

test('W1: an edit by a file tool is found by the next search', async () => {
  const folder = makeTree(sources);
  const backend = openLocalBackend(folder, { rules: createPathRules({ hide: [], keep: [], open: [] }) });
  const tools = createFileTools({ findFolder: () => ({ sessionId: 'one', backend }) });
  onTestFinished(async () => {
    await tools.close();
    await backend.close();
  });
  async function find(query: string): Promise<string[]> {
    const { structuredContent } = await tools.call('session_codebase_search', { query });
    return (structuredContent as { matches: { path: string }[] }).matches.map(({ path }) => path);
  }
  expect(await find('pelican')).toEqual([]);
  await tools.call('session_edit_file', { path: 'deep/er/bird.py', content: 'def feed_pelican():\n    pass\n' });
  expect(await find('pelican')).toEqual(['deep/er/bird.py']);
  await tools.call('session_move_file', { from: 'deep', to: 'shallow' });
  expect(await find('pelican')).toEqual(['shallow/er/bird.py']);
  await tools.call('session_delete_file', { path: 'shallow', recursive: true });
  expect(await find('pelican')).toEqual([]);
});

test('W1: an embedding provider finds what has other words, and its failure changes nothing else', async () => {
  const meanings = [/bird|heron|egret/, /boat|ship|vessel/, /fire|flame/];
  const asked: string[] = [];
  let isBroken = false;
  const embeddings: EmbeddingProvider = {
    name: 'three-meanings',
    async embed(texts, kind) {
      if (isBroken) throw new Error('no service');
      asked.push(...texts.map(() => kind));
      return texts.map((text) => meanings.map((meaning) => (meaning.test(text) ? 1 : 0.01)));
    },
  };
  const files = { 'a.ts': 'const heron = 1;\n', 'b.ts': 'const vessel = 2;\n', 'c.ts': 'const flame = 3;\n' };
  const { ask, failures } = openCodebase(makeTree(files), { embeddings });
  // Passages are embedded in the background.
  await expect
    .poll(async () => (await ask('boat')).matches[0])
    .toMatchObject({ path: 'b.ts', why: 'similar in meaning' });
  expect(asked.filter((kind) => kind === 'passage')).toHaveLength(3);
  isBroken = true;
  expect((await ask('vessel')).matches[0]).toMatchObject({ path: 'b.ts', why: 'defines vessel' });
  expect(failures).toHaveLength(1);
});
