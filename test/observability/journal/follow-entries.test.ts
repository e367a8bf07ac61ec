import { appendFileSync, mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { followEntries } from '../../../src/observability/journal/follow-entries.ts';
import type { RecordedEntry } from '../../../src/observability/journal/read-entries.ts';

const line = (id: number | string) => `{"time":"2026-11-18T09:00:00.000Z","kind":"call","id":"${id}"}\n`;

function createScene() {
  const folder = mkdtempSync(join(tmpdir(), 'ambit-followed-'));
  const file = join(folder, 'journal.jsonl');
  const closed = join(folder, 'journal-20261118T090000000Z-abcdef.jsonl');
  const stop = new AbortController();
  const ids: string[] = [];
  let unreadable = 0;
  let onChange = () => {};
  const follow = (last: number) => {
    const listener = {
      async entry({ id }: RecordedEntry) {
        ids.push(String(id));
        onChange();
      },
      unreadable(count: number) {
        unreadable += count;
        onChange();
      },
    };
    const ended = followEntries(file, { last, signal: stop.signal, pollMs: 5 }, listener);
    onTestFinished(async () => {
      stop.abort();
      await ended;
      rmSync(folder, { recursive: true, force: true });
    });
  };
  /** Resolves when the reader has seen so much. */
  const seen = (count: number, damaged = 0) =>
    new Promise<string[]>((resolve) => {
      onChange = () => {
        if (ids.length >= count && unreadable >= damaged) resolve(ids);
      };
      onChange();
    });
  return { file, closed, follow, seen };
}

test('C3: entries are followed across a rotation, also those that a slow process adds to the closed file', async () => {
  const { file, closed, follow, seen } = createScene();
  writeFileSync(file, [1, 2, 3].map(line).join(''));
  follow(2);
  expect(await seen(2)).toEqual(['2', '3']);
  appendFileSync(file, line(4));
  await seen(3);
  appendFileSync(file, line(5));
  renameSync(file, closed);
  writeFileSync(file, line(6));
  expect((await seen(5)).slice(3)).toEqual(['5', '6']);
  appendFileSync(closed, line('late'));
  appendFileSync(file, line(7));
  expect((await seen(7)).slice(5).sort()).toEqual(['7', 'late']);
  // Another program empties the file.
  writeFileSync(file, line(8));
  expect((await seen(8)).slice(7)).toEqual(['8']);
});

test('a journal that does not exist yet, unfinished and damaged lines', async () => {
  const { file, follow, seen } = createScene();
  follow(10);
  expect(await seen(0)).toEqual([]);
  writeFileSync(file, line(1).slice(0, 20));
  appendFileSync(file, line(1).slice(20));
  await seen(1);
  appendFileSync(file, `{"torn\n\n${line(2)}${'x'.repeat(1_500_000)}\n${line(3)}`);
  expect(await seen(3, 2)).toEqual(['1', '2', '3']);
});
