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

function build(name: string, hashBytes: number, count: number): string {
  const path = join(folder, name);
  mkdirSync(path);
  runGit(path, ['init', '--quiet', `--object-format=${hashBytes === 20 ? 'sha1' : 'sha256'}`]);
  const file = runGit(path, ['hash-object', '-w', '--stdin'], { input: 'x' }).trim();
  const files = Array.from({ length: count }, (_, at) => `100644 ${file} 0\tsrc/${'d/'.repeat(at % 9)}file-${at}`);
  const links = ['a/first', 'src/middle-é', 'z/last'].map((each) => `160000 ${'1'.repeat(hashBytes * 2)} 0\t${each}`);
  runGit(path, ['update-index', '--index-info'], { input: `${[...files, ...links].join('\n')}\n` });
  return path;
}

const read = (path: string, hashBytes = 20, spend: (bytes: number) => void = () => {}) =>
  readSubmodulesOfIndex({ gitFolder: join(path, '.git'), hashBytes, spend });
const expected = ['a/first', 'src/middle-é', 'z/last'];

test('S4: the submodules of an index are found in each of its versions', async () => {
  // So many files that the index is read in several pieces.
  const path = build('plain', 20, 3500);
  expect(await read(path)).toEqual(expected);
  runGit(path, ['update-index', '--skip-worktree', 'src/file-0']);
  expect(await read(path)).toEqual(expected);
  runGit(path, ['update-index', '--index-version', '4']);
  expect(await read(path)).toEqual(expected);
  runGit(path, ['update-index', '--split-index']);
  runGit(path, ['update-index', '--add', '--cacheinfo', `160000,${'2'.repeat(40)},later`]);
  expect((await read(path)).toSorted()).toEqual(['a/first', 'later', 'src/middle-é', 'z/last']);
  expect(await read(build('long', 32, 10), 32)).toEqual(expected);
});

test('S4: an index that leaves folders out names all submodules', async () => {
  const path = build('sparse', 20, 10);
  runGit(path, ['commit', '--quiet', '--message', 'all']);
  runGit(path, ['sparse-checkout', 'set', '--cone', '--sparse-index', 'a']);
  expect(await read(path)).toEqual(expected);
});

test('S4: an index that is not understood, or too large, is not taken for one without submodules', async () => {
  const path = join(folder, 'odd');
  mkdirSync(join(path, '.git'), { recursive: true });
  expect(await read(path)).toEqual([]);
  for (const content of ['', 'DIRC', `DIRC\0\0\0\x05\0\0\0\0`, `DIRC\0\0\0\x02\0\0\0\x01${'x'.repeat(200)}`]) {
    writeFileSync(join(path, '.git/index'), content, 'latin1');
    await expect(read(path)).rejects.toThrow('cannot be read or understood');
  }
  await expect(
    read(path, 20, () => {
      throw new RangeError('too much');
    }),
  ).rejects.toThrow();
});
