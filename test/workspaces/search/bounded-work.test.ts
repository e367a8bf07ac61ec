import { expect, test } from 'vitest';
import { type Budget, createBudget } from '../../../src/workspaces/search/bounds.ts';
import { readExpression } from '../../../src/workspaces/search/expression.ts';
import { grepFile } from '../../../src/workspaces/search/grep-file.ts';
import { readIgnoreFile } from '../../../src/workspaces/search/ignore-file.ts';
import { enterLevel, type IgnoreLevel, isIgnored } from '../../../src/workspaces/search/ignore-levels.ts';
import { filesIn } from './searched.ts';
import { folderWith } from './some-files.ts';

/** Looks at nothing but how much is done from one look to the next. */
function watched() {
  const seen = { now: 0, most: 0, longest: 0 };
  const budget: Budget = {
    ...createBudget(),
    goesOn: async () => {
      seen.now = 0;
      return true;
    },
  };
  return { seen, budget };
}

test('a large expression on long lines is not worked on for long without a look at the time', async () => {
  // So many states at once that no table holds them: each character costs as much as the expression is large.
  const large = readExpression('(?:a|b)*a(?:a|b){600}c?[de]', true);
  const { seen, budget } = watched();
  const expression = {
    ...large,
    find(line: string) {
      const work = line.length * large.size;
      seen.now += work;
      seen.most = Math.max(seen.most, seen.now);
      seen.longest = Math.max(seen.longest, work);
      return -1;
    },
  };
  const bytes = Buffer.from([65_000, 6000, 60].map((length) => `${'ab'.repeat(length / 2)}\n`.repeat(60)).join(''));
  const options = { expression, contextLines: 0, limit: 10, room: { characters: 1000 }, budget };
  expect(await grepFile(bytes, options)).toEqual([]);
  expect(seen.longest).toBeGreaterThan(0);
  expect(seen.longest).toBeLessThanOrEqual(2 ** 22);
  expect(seen.most).toBeLessThanOrEqual(2 ** 23);
});

test('an ordinary expression is still searched for in long lines', async () => {
  const { budget } = watched();
  const expression = readExpression('needle[0-9]+', true);
  const options = { expression, contextLines: 0, limit: 10, room: { characters: 10_000 }, budget };
  const bytes = Buffer.from(`${'a'.repeat(65_000)}needle7\n`);
  expect(await grepFile(bytes, options)).toHaveLength(1);
});

test('a search whose entries cost much looks at the time after each of them', async () => {
  const budget = createBudget({ entries: 1000, ms: 60_000 });
  const until = performance.now() + 20;
  while (performance.now() < until);
  expect(budget.count()).toBe(true);
});

test('ignore files of all folders above together are bounded, the nearest to the top first', async () => {
  const names = Array.from({ length: 6 }, (_, depth) => 'd/'.repeat(depth));
  const rules = (depth: number) => `only-${depth}\n${'{a,b}*x\n'.repeat(900)}`;
  const files = filesIn(folderWith(Object.fromEntries(names.map((at, depth) => [`${at}.gitignore`, rules(depth)]))));
  let level: IgnoreLevel | undefined;
  for (const at of names) level = await enterLevel(files, at === '' ? '.' : at.slice(0, -1), level);
  expect(level?.globs).toBeLessThanOrEqual(2000);
  expect(isIgnored(level as IgnoreLevel, 'd/d/d/d/d/only-0', false)).toBe(true);
  expect(isIgnored(level as IgnoreLevel, 'd/d/d/d/d/only-5', false)).toBe(false);
});

test('patterns of ignore files are bounded by their length too', () => {
  const long = readIgnoreFile(`first\n${`*${'a'.repeat(900)}b\n`.repeat(200)}last`);
  expect(long('first', false)).toBe('ignored');
  expect(long('last', false)).toBeUndefined();
});

test('S4: lines of an ignore file that have no room are not read without end', () => {
  // Each of these lines stands for 256 globs.
  const braces = `${'{a,b,c,d}'.repeat(4)}\n`;
  expect(readIgnoreFile(`${braces.repeat(10)}last`)('last', false)).toBe('ignored');
  expect(readIgnoreFile(`${braces.repeat(1000)}last`)('last', false)).toBeUndefined();
});
