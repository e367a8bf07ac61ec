import { setImmediate as turn } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { readAhead } from '../../../src/workspaces/search/grep.ts';
import { makeFolder } from './make-folder.ts';
import { openFiles } from './open-files.ts';

const large = 'x'.repeat(2 * 1024 * 1024);
const names = ['a', 'b-large', 'c', 'd-large', 'e'];
const tree = Object.fromEntries(names.map((name) => [name, name.endsWith('large') ? large : name]));

async function* yieldPaths(paths: readonly string[]): AsyncGenerator<string> {
  yield* paths;
}

test('parallel searches hold one large file in total, and read all files in order', async () => {
  const files = openFiles(makeFolder(tree));
  let holding = 0;
  let most = 0;
  const search = async () => {
    const found: string[] = [];
    for await (const { path, bytes } of readAhead(files, yieldPaths(names))) {
      if (bytes.length > 1024 * 1024) {
        most = Math.max(most, ++holding);
        await turn();
        holding--;
      }
      found.push(path);
    }
    return found;
  };
  expect(await Promise.all(Array.from({ length: 10 }, search))).toEqual(Array.from({ length: 10 }, () => names));
  expect(most).toBe(1);
});

test('a search that stops at a large file does not block others', async () => {
  const files = openFiles(makeFolder(tree));
  for await (const { path } of readAhead(files, yieldPaths(names))) if (path === 'b-large') break;
  await expect(
    (async () => {
      for await (const { path } of readAhead(files, yieldPaths(names))) if (path === 'b-large') throw new Error('stop');
    })(),
  ).rejects.toThrow('stop');
  const rest: string[] = [];
  for await (const { path } of readAhead(files, yieldPaths(names))) rest.push(path);
  expect(rest).toEqual(names);
});
