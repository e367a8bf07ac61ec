import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { openJournal } from '../../../src/observability/journal/journal.ts';

function openEmpty() {
  const folder = mkdtempSync(join(tmpdir(), 'ambit-turns-'));
  const journal = openJournal(join(folder, 'journal.jsonl'), { warn() {} });
  onTestFinished(async () => {
    await journal.close();
    rmSync(folder, { recursive: true, force: true });
  });
  return journal;
}

test('S7: all consoles of one reader take one turn, each console has a turn among them, and both are limited', async () => {
  const journal = openEmpty();
  const begun: string[] = [];
  const search = (reader: string, console: string | undefined, name: string) =>
    journal.search(
      async () => {
        begun.push(name);
        return { words: ['nowhere'] };
      },
      { limit: 5, reader, console },
    );
  const crowd = Array.from({ length: 70 }, (_, i) => search('crowd', `${i % 5 === 4 ? i : i % 5}`, `c${i}`));
  const admin = [0, 1].map((i) => search('admin', undefined, `a${i}`));
  const all = await Promise.allSettled([...crowd, ...admin]);
  const refused = all.flatMap((each, i) => (each.status === 'rejected' ? [[i, each.reason.code]] : []));
  // Two run and 64 wait. Those that are refused have not been looked up.
  expect(refused).toEqual([66, 67, 68, 69].map((i) => [i, 'OVERLOADED']));
  expect(begun).toHaveLength(68);
  // Each search of the admin waits for one of the crowd, though most of the crowd came before.
  expect(begun.slice(0, 8)).toEqual(['c0', 'c1', 'c2', 'a0', 'c3', 'a1', 'c4', 'c5']);
});

test('S7: nothing is looked up for a search that is refused, or whose reader leaves while it waits', async () => {
  const journal = openEmpty();
  const lookedUp: number[] = [];
  const leaving = new AbortController();
  const searches = Array.from({ length: 20 }, (_, i) =>
    journal.search(
      async () => {
        lookedUp.push(i);
        return {};
      },
      { limit: 1, reader: 'ada', signal: i > 3 ? leaving.signal : undefined },
    ),
  );
  leaving.abort();
  const all = await Promise.allSettled(searches);
  expect(all.map(({ status }) => status).lastIndexOf('fulfilled')).toBe(17);
  expect(lookedUp).toEqual([0, 1, 2, 3]);
});
