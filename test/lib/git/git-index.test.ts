import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { readSubmodulesOfIndex } from '../../../src/lib/git/git-index.ts';
import { runGit } from '../../fixtures/hostile/builds-repository.js';

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'ambit-index-'));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

function buildIndex(name: string, hashBytes: number, count: number): string {
  const path = join(folder, name);
  mkdirSync(path);
  runGit(path, ['init', '--quiet', `--object-format=${hashBytes === 20 ? 'sha1' : 'sha256'}`]);
  const file = runGit(path, ['hash-object', '-w', '--stdin'], { input: 'x' }).trim();
  const files = Array.from({ length: count }, (_, at) => `100644 ${file} 0\tsrc/${'d/'.repeat(at % 9)}file-${at}`);
  const links = ['a/first', 'src/middle-é', 'z/last'].map((each) => `160000 ${'1'.repeat(hashBytes * 2)} 0\t${each}`);
  runGit(path, ['update-index', '--index-info'], { input: `${[...files, ...links].join('\n')}\n` });
  return path;
}

const readSubmodules = (path: string, hashBytes = 20, spend: (bytes: number) => void = () => {}) =>
  readSubmodulesOfIndex({ gitFolder: join(path, '.git'), hashBytes, spend });
const expected = ['a/first', 'src/middle-é', 'z/last'];

test('S4: the submodules of an index are found in each of its versions', async () => {
  // Enough files to read the index in several chunks.
  const path = buildIndex('plain', 20, 3500);
  expect(await readSubmodules(path)).toEqual(expected);
  runGit(path, ['update-index', '--skip-worktree', 'src/file-0']);
  expect(await readSubmodules(path)).toEqual(expected);
  runGit(path, ['update-index', '--index-version', '4']);
  expect(await readSubmodules(path)).toEqual(expected);
  runGit(path, ['update-index', '--split-index']);
  runGit(path, ['update-index', '--add', '--cacheinfo', `160000,${'2'.repeat(40)},later`]);
  expect((await readSubmodules(path)).toSorted()).toEqual(['a/first', 'later', 'src/middle-é', 'z/last']);
  expect(await readSubmodules(buildIndex('long', 32, 10), 32)).toEqual(expected);
});

test('S4: a sparse index still names all submodules', async () => {
  const path = buildIndex('sparse', 20, 10);
  runGit(path, ['commit', '--quiet', '--message', 'all']);
  runGit(path, ['sparse-checkout', 'set', '--cone', '--sparse-index', 'a']);
  expect(await readSubmodules(path)).toEqual(expected);
});

test('S4: an unreadable or too large index is an error, not an index without submodules', async () => {
  const path = join(folder, 'odd');
  mkdirSync(join(path, '.git'), { recursive: true });
  expect(await readSubmodules(path)).toEqual([]);
  for (const content of ['', 'DIRC', `DIRC\0\0\0\x05\0\0\0\0`, `DIRC\0\0\0\x02\0\0\0\x01${'x'.repeat(200)}`]) {
    writeFileSync(join(path, '.git/index'), content, 'latin1');
    await expect(readSubmodules(path)).rejects.toThrow('cannot be read or understood');
  }
  await expect(
    readSubmodules(path, 20, () => {
      throw new RangeError('too much');
    }),
  ).rejects.toThrow();
});
