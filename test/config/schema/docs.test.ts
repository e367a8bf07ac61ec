import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { notBuiltYet } from '../../../src/config/schema/find-problems.ts';
import { listKnownKeys } from '../../../src/config/schema/json-schema.ts';

const page = readFileSync(new URL('../../../docs/reference/configuration.md', import.meta.url), 'utf8');
const rows = page
  .split('\n')
  .map((line) => /^\| `([^`]+)` \| (.+) \| (.+) \| (.+) \|$/.exec(line))
  .filter((match) => match !== null)
  .map(([, key = '', , standard = '', meaning = '']) => ({ key, standard, meaning }));
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

test('every key has the description of the JSON Schema, and says whether it is not available yet', () => {
  const expected = known.map(({ key, schema }) => {
    const later = notBuiltYet.find((row) => row.key === key);
    const effect = later?.refuse === undefined ? 'it has no effect' : 'setting it stops the start';
    const note = later === undefined ? '' : ` Not available yet: ${effect}.`;
    return [key, `${schema.description?.replaceAll('|', '\\|')}${note}`];
  });
  const meanings = Object.fromEntries(rows.map(({ key, meaning }) => [key, meaning]));
  expect(meanings).toEqual(Object.fromEntries(expected));
});
