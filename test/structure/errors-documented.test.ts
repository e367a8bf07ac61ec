import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { errorTable } from '../../src/errors.ts';
import { repository } from './source-files.ts';

const page = readFileSync(join(repository, 'docs/reference/errors.md'), 'utf8').replaceAll('&lt;', '<');
const documented = new Map(
  [...page.matchAll(/^\| `([A-Z_]+)` \| (.+) \| (.+) \| (\d+) \| (\d+) \| (yes|no|check first) \|$/gm)].map((row) => [
    row[1] as string,
    {
      sentence: row[2],
      hint: row[3],
      http: Number(row[4]),
      rpc: Number(row[5]),
      retryable: row[6] === 'check first' ? 'check' : row[6] === 'yes',
    },
  ]),
);

test('the page lists every error as the table has it, and no other', () => {
  expect(Object.fromEntries(documented)).toEqual(errorTable);
});

test('codes are outside the range JSON-RPC keeps, and each is used once', () => {
  const numbers = Object.values(errorTable).map((row) => row.rpc);
  expect(new Set(numbers).size).toBe(numbers.length);
  expect(numbers.filter((code) => code >= -32768 && code <= -32000)).toEqual([]);
});
