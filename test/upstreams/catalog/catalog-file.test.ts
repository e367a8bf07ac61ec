import { mkdtempSync, readFileSync, rmSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { type CachedOffer, openCatalogFile } from '../../../src/upstreams/catalog/catalog-file.ts';
import type { Offer } from '../../../src/upstreams/catalog/offer.ts';

const lists: Offer = { tools: ['{"name":"t"}'], prompts: [], templates: [], hasResources: true, at: Date.now() };
const offer: CachedOffer = { offer: lists, owner: { key: 'ada', userId: 'ada' } };
let folder: string;
let path: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'ambit-catalog-'));
  path = join(folder, 'catalog.json');
});

afterEach(() => {
  rmSync(folder, { recursive: true });
});

async function write(...keys: string[]): Promise<void> {
  const file = openCatalogFile(path);
  for (const key of keys) file.put(key, offer);
  await file.close();
}

test('stored offers are loaded again, and the file is private', async () => {
  await write('a 1');
  expect(statSync(path).mode & 0o777).toBe(0o600);
  expect(openCatalogFile(path).load()).toEqual(new Map([['a 1', offer]]));
});

test('the newest offers are kept when there are too many', async () => {
  await write(...Array.from({ length: 600 }, (_, at) => `a ${at}`));
  const kept = [...openCatalogFile(path).load().keys()];
  expect([kept.length, kept[0], kept.at(-1)]).toEqual([500, 'a 100', 'a 599']);
});

test('S2: a process never restores what another has removed, and removes what another has stored', async () => {
  await write('a 1', 'a 2');
  const [one, other] = [openCatalogFile(path), openCatalogFile(path)];
  expect(other.load().size).toBe(2);
  await write('a 3');
  one.remove((key) => key !== 'a 2');
  await one.close();
  other.put('a 4', offer);
  await other.close();
  expect([...openCatalogFile(path).load().keys()]).toEqual(['a 2', 'a 4']);
});

test('S2: a list that is a week old is gone from the file with the next change', async () => {
  const file = openCatalogFile(path);
  file.put('a 1', { ...offer, offer: { ...lists, at: Date.now() - 8 * 24 * 3_600_000 } });
  file.put('a 2', offer);
  await file.close();
  await write('a 3');
  expect(readFileSync(path, 'utf8')).not.toContain('a 1');
});

const long = (length: number): CachedOffer => ({ ...offer, offer: { ...lists, tools: ['x'.repeat(length)] } });

test('a long list is not stored, and removes an outdated short one', async () => {
  await write('a 1', 'a 2');
  const file = openCatalogFile(path);
  file.put('a 1', long(1 << 20));
  file.put('a 3', long(1 << 20));
  await file.close();
  expect([...openCatalogFile(path).load().keys()]).toEqual(['a 2']);
});

test('the newest lists are kept when they are too long together; a file that is too long is ignored', async () => {
  const file = openCatalogFile(path);
  for (let at = 0; at < 17; at++) file.put(`a ${at}`, long(1_000_000));
  await file.close();
  expect(statSync(path).size).toBeLessThanOrEqual(16 << 20);
  expect([...openCatalogFile(path).load().keys()]).toEqual(Array.from({ length: 16 }, (_, at) => `a ${at + 1}`));
  truncateSync(path, (48 << 20) + 1);
  expect(openCatalogFile(path).load()).toEqual(new Map());
});

test.each([
  '',
  '{',
  'null',
  '{}',
  '[1]',
  '[["a"]]',
  '[["a",null]]',
  '[["a",{"at":1}]]',
  '[["a",{"tools":1,"at":2}]]',
  JSON.stringify([['a', lists]]),
])('a file that says %j is as good as none', (text) => {
  writeFileSync(path, text);
  expect(openCatalogFile(path).load()).toEqual(new Map());
});

test('a missing folder causes no error', async () => {
  const file = openCatalogFile(join(folder, 'none', 'catalog.json'));
  file.put('a 1', offer);
  await expect(file.close()).resolves.toBeUndefined();
});
