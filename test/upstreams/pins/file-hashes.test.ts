import { appendFileSync, mkdtempSync, rmSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setImmediate as turn } from 'node:timers/promises';
import { expect, onTestFinished, test } from 'vitest';
import { createFileHashes } from '../../../src/upstreams/pins/file-hashes.ts';

/** Linux has a file whose content is another at each reading while its size, times and inode stay the same. */
const restless = '/proc/sys/kernel/random/uuid';

test.runIf(process.platform === 'linux')('a file that changed less than two seconds ago is not remembered', () => {
  const { ctimeMs } = statSync(restless);
  const young = createFileHashes(() => Math.ceil(ctimeMs) + 1900);
  expect(young.reader()(restless)).not.toEqual(young.reader()(restless));
  const settled = createFileHashes(() => Math.ceil(ctimeMs) + 2100);
  expect(settled.reader()(restless)).toEqual(settled.reader()(restless));
});

/** Creates a sparse file that takes many pieces to read. */
function createLarge(): string {
  const folder = mkdtempSync(join(tmpdir(), 'ambit-hashes-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const path = join(folder, 'large.js');
  writeFileSync(path, 'one');
  truncateSync(path, 64 << 20);
  return path;
}

/** A signal that is aborted after it was asked some times. */
function countChecks(checks: number) {
  let asked = 0;
  return {
    count: () => asked,
    signal: {
      get aborted() {
        return ++asked > checks;
      },
    },
  };
}

test.runIf(process.platform === 'linux')('S7: all that wait for one file share one read of it', async () => {
  const { ctimeMs } = statSync(restless);
  const hashes = createFileHashes(() => Math.ceil(ctimeMs));
  const large = createLarge();
  const first = hashes.readInPieces([large]);
  const others = Array.from({ length: 100 }, () => hashes.readInPieces([large, restless]));
  await first;
  const found = await Promise.all(others);
  expect(new Set(found.map((find) => JSON.stringify(find(restless)))).size).toBe(1);
  expect((await hashes.readInPieces([restless]))(restless)).not.toEqual(found[0]?.(restless));
});

test('S3: nobody gets a read that had begun before they asked, since the file may have changed meanwhile', async () => {
  const large = createLarge();
  const hashes = createFileHashes();
  const before = hashes.readInPieces([large]);
  for (let turns = 0; turns < 10; turns++) await turn();
  writeFileSync(large, 'two', { flag: 'r+' });
  const after = (await hashes.readInPieces([large]))(large);
  expect(after).toEqual(createFileHashes().reader()(large));
  await before;
  appendFileSync(large, 'three');
  expect((await hashes.readInPieces([large]))(large)).toEqual(createFileHashes().reader()(large));
});

test('S7: a file is not read, or not to its end, when all who asked have left', async () => {
  const large = createLarge();
  const hashes = createFileHashes();
  const whole = countChecks(Number.POSITIVE_INFINITY);
  expect((await hashes.readInPieces([large], whole.signal))(large)).toMatchObject({ real: large });
  expect(whole.count()).toBeGreaterThan(60);
  writeFileSync(large, 'two', { flag: 'r+' });
  const left = countChecks(5);
  expect((await hashes.readInPieces([large], left.signal))(large)).toBeUndefined();
  expect(left.count()).toBeLessThan(12);

  const gone = new AbortController();
  const crowd = Array.from({ length: 30 }, () => hashes.readInPieces([large], gone.signal));
  const waiting = [hashes.readInPieces([large]), hashes.readInPieces([large], gone.signal)];
  gone.abort();
  // One of them still wants it.
  expect((await Promise.all(waiting)).map((find) => find(large))).toContainEqual(createFileHashes().reader()(large));
  await Promise.all(crowd);
  expect((await hashes.readInPieces([large], gone.signal))(large)).toBeUndefined();
});
