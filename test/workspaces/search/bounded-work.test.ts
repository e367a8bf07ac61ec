import { expect, test } from 'vitest';
import { parseExpression } from '../../../src/workspaces/search/expression.ts';
import { grepFile } from '../../../src/workspaces/search/grep.ts';
import {
  enterLevel,
  type IgnoreLevel,
  isIgnored,
  parseIgnoreFile,
} from '../../../src/workspaces/search/ignore-rules.ts';
import { createSearchBudget, type SearchBudget } from '../../../src/workspaces/search/search-budget.ts';
import { makeFolder } from './make-folder.ts';
import { openFiles } from './open-files.ts';

/** Looks at nothing but how much is done from one look to the next. */
function createCountingBudget() {
  const seen = { now: 0, most: 0, longest: 0 };
  const budget: SearchBudget = {
    ...createSearchBudget(),
    canContinue: async () => {
      seen.now = 0;
      return true;
    },
  };
  return { seen, budget };
}

test('a large expression on long lines checks the budget often', async () => {
  // So many states at once that no table holds them: each character costs as much as the expression is large.
  const large = parseExpression('(?:a|b)*a(?:a|b){600}c?[de]', true);
  const { seen, budget } = createCountingBudget();
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
  const options = { expression, contextLines: 0, limit: 10, remaining: { characters: 1000 }, budget };
  expect(await grepFile(bytes, options)).toEqual([]);
  expect(seen.longest).toBeGreaterThan(0);
  expect(seen.longest).toBeLessThanOrEqual(2 ** 22);
  expect(seen.most).toBeLessThanOrEqual(2 ** 23);
});

test('an ordinary expression is still searched for in long lines', async () => {
  const { budget } = createCountingBudget();
  const expression = parseExpression('needle[0-9]+', true);
  const options = { expression, contextLines: 0, limit: 10, remaining: { characters: 10_000 }, budget };
  const bytes = Buffer.from(`${'a'.repeat(65_000)}needle7\n`);
  expect(await grepFile(bytes, options)).toHaveLength(1);
});

test('a search with costly entries checks the budget after each of them', async () => {
  const budget = createSearchBudget({ entries: 1000, ms: 60_000 });
  const until = performance.now() + 20;
  while (performance.now() < until);
  expect(budget.count()).toBe(true);
});

test('the ignore files of all parents have one size limit, from the top down', async () => {
  const names = Array.from({ length: 6 }, (_, depth) => 'd/'.repeat(depth));
  const rules = (depth: number) => `only-${depth}\n${'{a,b}*x\n'.repeat(900)}`;
  const files = openFiles(makeFolder(Object.fromEntries(names.map((at, depth) => [`${at}.gitignore`, rules(depth)]))));
  let level: IgnoreLevel | undefined;
  for (const at of names) level = await enterLevel(files, at === '' ? '.' : at.slice(0, -1), level);
  expect(level?.remaining.globs).toBeGreaterThanOrEqual(0);
  expect(isIgnored(level as IgnoreLevel, 'd/d/d/d/d/only-0', false)).toBe(true);
  expect(isIgnored(level as IgnoreLevel, 'd/d/d/d/d/only-5', false)).toBe(false);
});

test('patterns of ignore files are bounded by their length too', async () => {
  const long = await parseIgnoreFile(`first\n${`*${'a'.repeat(900)}b\n`.repeat(200)}last`);
  expect(long('first', false)).toBe('ignored');
  expect(long('last', false)).toBeUndefined();
});

/** As many brace lines as go into a file: each stands for 256 globs, or is long to expand. */
const createBraceFile = (line: string) => `first\n${`${line.slice(0, 990)}\n`.repeat(Math.floor(65_000 / 991))}last`;
const pairs = '{a,b}'.repeat(8);

test.each([`${pairs}{${','.repeat(255)}}`, `${pairs}${'{x}'.repeat(300)}`, `${pairs}${'x'.repeat(900)}`, pairs])(
  'S7: braces in an ignore file cost no more than plain lines do: %s',
  async (line) => {
    let looks = 0;
    const goesOn = async () => ++looks > 0;
    const text = createBraceFile(line);
    const rules = await parseIgnoreFile(text, undefined, { canContinue: goesOn });
    expect(rules.size.globs).toBeLessThanOrEqual(2000);
    expect(rules.size.characters).toBeLessThanOrEqual(65_536);
    expect(rules('first', false)).toBe('ignored');
    // Each line that has braces waits for its turn.
    const left = text.split('\n').filter((each) => each.includes('{')).length;
    expect(looks).toBeGreaterThanOrEqual(Math.min(left, 8));
  },
);

test('S7: a search that ends while an ignore file is read stops reading it', async () => {
  let left = 3;
  const rules = await parseIgnoreFile('{a,b}\n'.repeat(1000), undefined, { canContinue: async () => left-- > 0 });
  expect(rules.size.globs).toBe(6);
});
