import { setImmediate as turn } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { readAhead } from '../../../src/workspaces/search/read-ahead.ts';
import { folderWith } from './make-folder.ts';
import { filesIn } from './open-files.ts';

const large = 'x'.repeat(2 * 1024 * 1024);
const names = ['a', 'b-large', 'c', 'd-large', 'e'];
const tree = Object.fromEntries(names.map((name) => [name, name.endsWith('large') ? large : name]));

async function* these(paths: readonly string[]): AsyncGenerator<string> {
  yield* paths;
}

test('searches at the same time hold one large file among them, and come upon all files in order', async () => {
  const files = filesIn(folderWith(tree));
  let holding = 0;
  let most = 0;
  const search = async () => {
    const found: string[] = [];
    for await (const { path, bytes } of readAhead(files, these(names))) {
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

test('a search that stops at a large file lets others have theirs', async () => {
  const files = filesIn(folderWith(tree));
  for await (const { path } of readAhead(files, these(names))) if (path === 'b-large') break;
  await expect(
    (async () => {
      for await (const { path } of readAhead(files, these(names))) if (path === 'b-large') throw new Error('stop');
    })(),
  ).rejects.toThrow('stop');
  const rest: string[] = [];
  for await (const { path } of readAhead(files, these(names))) rest.push(path);
  expect(rest).toEqual(names);
});
