import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { expect, onTestFinished, test } from 'vitest';
import { openDatabase } from '../../../src/stores/sqlite/driver.ts';
import { createCodeIndexes } from '../../../src/workspaces/codebase/code-indexes.ts';
import { createFolderIndex } from '../../../src/workspaces/codebase/folder-index.ts';
import { openIndexDatabase } from '../../../src/workspaces/codebase/index-database.ts';
import { locateIndex, removeWithIndexes } from '../../../src/workspaces/codebase/index-files.ts';
import { createIndexThread, IndexError, type IndexThread } from '../../../src/workspaces/codebase/index-thread.ts';
import { counts } from '../../proof.ts';
import { openFiles } from '../search/open-files.ts';
import { makeTree, openCodebase } from './open-codebase.ts';

test('S2: the words of a deleted file are not left in the index', async () => {
  const dataDir = makeTree({});
  const folder = makeTree({ 'secret.ts': 'const quetzalcoatl = 1;\n', 'a.ts': 'const ordinary = 1;\n' });
  const { find, close } = openCodebase(folder, { dataDir });
  expect(await find('quetzalcoatl')).toEqual(['secret.ts']);
  rmSync(join(folder, 'secret.ts'));
  expect(await find('quetzalcoatl ordinary')).toEqual(['a.ts']);
  const search = join(dataDir, 'search');
  const readAll = () => readdirSync(search).map((name) => readFileSync(join(search, name), 'latin1'));
  for (const bytes of readAll()) expect(bytes).not.toContain('quetzalcoatl');
  await close();
  expect(readAll().join()).toContain('ordinary');
});

test('S7: an index that is full says so', () => {
  const database = openIndexDatabase(openDatabase(':memory:'), 200 * 1024);
  onTestFinished(() => database.close());
  const text = Array.from({ length: 20_000 }, (_, at) => `word${at.toString(36)}\n`).join('');
  expect(() => database.put([{ path: 'a.ts', mark: '1', text }])).toThrow(/full/);
  database.put([{ path: 'b.ts', mark: '1', text: 'const small = 1;\n' }]);
  const marks = ['a.ts', 'b.ts'].map((path) => ({ path, mark: '1' }));
  expect(database.findChanged(marks).map(({ path }) => path)).toEqual(['a.ts']);
});

test('W1: an index in memory that is opened again while it is being closed is complete', async () => {
  const log = { info() {}, warn() {} };
  const indexes = createCodeIndexes({ dataDir: undefined, log });
  onTestFinished(() => indexes.close());
  const { place } = openFiles(makeTree({ 'a.ts': 'const heron = 1;\n' }));
  let release = () => {};
  const released = new Promise<void>((resolve) => {
    release = resolve;
  });
  const slow: typeof place.inBackground = async (work) => {
    const result = await place.inBackground(work);
    await released;
    return result;
  };
  void indexes.open(place).refresh(slow);
  const others = makeTree({});
  for (let count = 0; count < 8; count++) indexes.open(openFiles(others).place);
  const again = indexes.open(place);
  const refreshed = again.refresh(place.inBackground);
  await wait(200);
  release();
  await refreshed;
  await wait(50);
  const { byWords } = await again.search({ terms: ['heron'], path: '.', limit: 5 }, 'heron');
  expect(byWords).toMatchObject([{ path: 'a.ts' }]);
});

test('W1: a change that the index cannot take does not fail the search', async () => {
  const real = createIndexThread();
  onTestFinished(() => real.close());
  const call = ((file, method, ...args) =>
    method === 'remove'
      ? Promise.reject(new IndexError('disk I/O error'))
      : real.call(file, method, ...args)) as IndexThread['call'];
  const index = createFolderIndex({
    file: ':memory:broken',
    prepareFile() {},
    thread: { ...real, call },
    signal: new AbortController().signal,
    takeTurn: (work) => work(),
    onFailure() {},
  });
  const { place } = openFiles(makeTree({ 'a.ts': 'const heron = 1;\n' }));
  await index.refresh(place.inBackground);
  index.noteChange('gone.ts');
  await index.applyChanges(place.inBackground);
  expect(index.progress).toMatchObject({ state: 'ready', files: 1 });
});

test('S2: an index that a running search makes while its folder is removed is removed too', async () => {
  const dataDir = makeTree({ 'search/other.db': '' });
  const folder = '/sessions/one';
  const [before, during] = ['a', 'b'].map((key) => locateIndex(dataDir, { key, folder })) as [string, string];
  writeFileSync(before, '');
  await removeWithIndexes(dataDir, folder, async () => writeFileSync(during, ''));
  expect(readdirSync(join(dataDir, 'search'))).toEqual(['other.db']);
});

test('S7: an index can be closed while its thread is at work', async () => {
  const [dataDir, folder] = [makeTree({}), makeTree({ 'a.ts': 'const heron = 1;\n' })];
  for (let count = 0; count < counts(4, 60); count++) {
    const { ask, askAtOnce, close } = openCodebase(folder, { dataDir });
    await ask('heron');
    expect((await askAtOnce('heron')).matches).toHaveLength(1);
    await close();
  }
});
