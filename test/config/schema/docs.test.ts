import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { notBuiltYet } from '../../../src/config/schema/find-problems.ts';
import { listKnownKeys } from '../../../src/config/schema/json-schema.ts';

const page = readFileSync(new URL('../../../docs/reference/configuration.md', import.meta.url), 'utf8');
const rows = page
  .split('\n')
  .map((line) => /^\| `([^`]+)` \| (.+) \| (.+) \| (.+) \| (built|later|later, refused) \|$/.exec(line))
  .filter((match) => match !== null)
  .map(([, key = '', , standard = '', , status = '']) => ({ key, standard, status }));
const known = listKnownKeys();

test('every key is documented, once', () => {
  expect(rows.map(({ key }) => key).sort()).toEqual(known.map(({ key }) => key).sort());
});

test('every row of the tables is well formed', () => {
  const body = page.slice(page.indexOf('| key | type |')).split('\n');
  expect(body.filter((line) => line.startsWith('| `'))).toHaveLength(rows.length);
});

test('every default is the one that holds', () => {
  const wrong = known.filter(({ key, schema }) => {
    if (schema.default === undefined || schema.properties !== undefined) return false;
    const shown = typeof schema.default === 'string' ? schema.default : JSON.stringify(schema.default);
    return rows.find((row) => row.key === key)?.standard !== `\`${shown}\``;
  });
  expect(wrong.map(({ key }) => key)).toEqual([]);
});

test('every key is called built or later as the table of what is not built has it', () => {
  const wrong = rows.filter(({ key, status }) => {
    const row = notBuiltYet.find(
      (later) => key === later.key || key.startsWith(`${later.key}.`) || key.startsWith(`${later.key}[]`),
    );
    const expected = row === undefined ? 'built' : row.refuse === undefined ? 'later' : 'later, refused';
    return status !== expected;
  });
  expect(wrong).toEqual([]);
});
