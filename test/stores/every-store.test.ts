import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { storeKinds } from '../../src/stores/store-kinds.ts';
import { repository } from '../structure/source-files.ts';

const stores = readdirSync(join(repository, 'src/stores'), { withFileTypes: true })
  .filter((entry) => entry.isDirectory())
  .map(({ name }) => name);
const text = (path: string) => readFileSync(join(repository, path), 'utf8');

test('every folder is a store that the configuration can name', () => {
  expect(stores.sort()).toEqual(Object.keys(storeKinds).sort());
});

test.each(stores)('%s is held against the suite, exported, and on the page', (name) => {
  const suite = `test/stores/${name}-store.test.ts`;
  expect(existsSync(join(repository, suite))).toBe(true);
  expect(text(suite)).toContain('describeSessionStore(');
  expect(text('src/stores/index.ts')).toContain(`./${name}/${name}-store.ts`);
  expect(text('docs/reference/stores.md')).toMatch(new RegExp(`^\\|.*\`${name}\`.*\\|$`, 'm'));
});
