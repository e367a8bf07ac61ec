import { expect, test } from 'vitest';
import { requirements } from '../requirements.ts';
import { readSourceFiles } from './source-files.ts';

const cited = new Set(
  readSourceFiles('test', /\.test\.ts$/).flatMap((file) =>
    [...file.text.matchAll(/(?:test|it|describe|\))\(\s*['"`]((?:[PGLWOSU]\d{1,2}(?:, )?)+):/g)].flatMap((match) =>
      (match[1] as string).split(', '),
    ),
  ),
);

test('every claimed requirement is cited by a test', () => {
  const claimed = requirements.filter((requirement) => requirement.claimed);
  process.stdout.write(`\nrequirements: ${claimed.length} of ${requirements.length} claimed\n`);
  expect(claimed.filter(({ id }) => !cited.has(id)).map(({ id }) => id)).toEqual([]);
});

test('no test cites a requirement that does not exist', () => {
  const known = new Set(requirements.map(({ id }) => id));
  expect([...cited].filter((id) => !known.has(id))).toEqual([]);
});

test('each id stands for one promise', () => {
  expect(new Set(requirements.map(({ id }) => id)).size).toBe(requirements.length);
});
