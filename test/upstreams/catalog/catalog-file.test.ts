import { mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { catalogFile, type KeptOffer } from '../../../src/upstreams/catalog/catalog-file.ts';
import type { Offer } from '../../../src/upstreams/catalog/offer.ts';

const lists: Offer = { tools: ['{"name":"t"}'], prompts: [], templates: [], hasResources: true, at: Date.now() };
const offer: KeptOffer = { offer: lists, owner: { key: 'ada', userId: 'ada' } };
let folder: string;
let path: string;

beforeEach(() => {
  vi.useFakeTimers();
  folder = mkdtempSync(join(tmpdir(), 'ambit-catalog-'));
  path = join(folder, 'catalog.json');
});

afterEach(() => {
  vi.useRealTimers();
  rmSync(folder, { recursive: true });
});

test('what is kept comes back, and the file is for its owner alone', () => {
  catalogFile(path).save(new Map([['a 1', offer]]));
  vi.runAllTimers();
  expect(statSync(path).mode & 0o777).toBe(0o600);
  expect(catalogFile(path).load()).toEqual(new Map([['a 1', offer]]));
});

test('of too many, the youngest are kept', () => {
  catalogFile(path).save(new Map(Array.from({ length: 600 }, (_, at) => [`a ${at}`, offer])));
  vi.runAllTimers();
  const kept = [...catalogFile(path).load().keys()];
  expect([kept.length, kept[0], kept.at(-1)]).toEqual([500, 'a 100', 'a 599']);
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
  expect(catalogFile(path).load()).toEqual(new Map());
});

test('a folder that is gone stops nothing', () => {
  catalogFile(join(folder, 'none', 'catalog.json')).save(new Map([['a 1', offer]]));
  expect(() => vi.runAllTimers()).not.toThrow();
});
