import { mkdtempSync, readdirSync, readlinkSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { openJournal } from '../../../../src/observability/journal/journal.ts';
import { createStatisticsReader } from '../../../../src/observability/journal/statistics/read-statistics.ts';
import { createStatisticsThread } from '../../../../src/observability/journal/statistics/statistics-thread.ts';

const sessions = 30;
const linesOfEach = 700;
const start = Date.UTC(2026, 10, 15);

test.runIf(process.platform === 'linux')('many sessions at once are read one after the other', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'ambit-statistics-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const file = join(folder, 'journal.jsonl');
  const call = { kind: 'call', server: 'notes', method: 'tools/call', name: 'read', outcome: 'ok', ms: 5 };
  const lines = Array.from({ length: sessions * linesOfEach }, (_, i) =>
    JSON.stringify({ time: new Date(start).toISOString(), ...call, sessionId: `s${i % sessions}-` }),
  );
  writeFileSync(file, `${lines.join('\n')}\n`);
  const reader = createStatisticsReader(file);
  const query = { since: start, until: start + 3_600_000, maxWaitMs: 60_000 };
  const reads = Array.from({ length: sessions }, (_, i) => reader.read({ ...query, session: `s${i}-` }));
  let isOver = false;
  const answered = Promise.all(reads).finally(() => {
    isOver = true;
  });
  let most = 0;
  while (!isOver) {
    most = Math.max(most, countOpen(file));
    await new Promise(setImmediate);
  }
  const counts = (await answered).map(({ complete, totals }) => [complete, totals.calls]);
  expect(counts).toEqual(Array.from({ length: sessions }, () => [true, linesOfEach]));
  expect(most).toBe(1);
});

test('S7: statistics of one reader are limited, readers take turns, and what is refused is not looked up', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'ambit-statistics-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const journal = openJournal(join(folder, 'journal.jsonl'), { warn() {} });
  onTestFinished(() => journal.close());
  const begun: string[] = [];
  const count = (reader: string, name: string) =>
    journal.statistics(
      async () => {
        begun.push(name);
        return { since: start, until: start + 3_600_000, session: name };
      },
      { reader },
    );
  const greedy = Array.from({ length: 200 }, (_, i) => count('greedy', `g${i}`));
  const other = count('other', 'o');
  const all = await Promise.allSettled([...greedy, other]);
  const refused = all.flatMap((each) => (each.status === 'rejected' ? [each.reason.code] : []));
  expect(refused).toEqual(Array.from({ length: 182 }, () => 'OVERLOADED'));
  expect(begun).toHaveLength(19);
  expect(begun.indexOf('o')).toBe(3);
});

test('S7: a client that has left gets no numbers, and nothing is read for it', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'ambit-statistics-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const file = join(folder, 'journal.jsonl');
  const call = { kind: 'call', server: 'notes', method: 'tools/call', name: 'read', outcome: 'ok', ms: 5 };
  const line = JSON.stringify({ time: new Date(start).toISOString(), ...call, sessionId: 's1-' });
  writeFileSync(file, `${line}\n`.repeat(30_000));
  const query = { since: start, until: start + 3_600_000, session: 's1-', maxWaitMs: 600_000 };
  const gone = AbortSignal.abort();
  const reader = createStatisticsReader(file);
  expect(await reader.read(query, gone)).toMatchObject({ complete: false, totals: { calls: 0 } });
  // Another one gets all of them.
  expect(await reader.read(query)).toMatchObject({ complete: true, totals: { calls: 30_000 } });

  const journal = openJournal(file, { warn() {} });
  onTestFinished(() => journal.close());
  expect(await journal.statistics(query, { signal: gone })).toMatchObject({ complete: false, totals: { calls: 0 } });
  // The thread has started neither when it is asked nor when the client leaves.
  const thread = createStatisticsThread(file);
  onTestFinished(() => thread.close());
  const leaving = new AbortController();
  const left = thread.read(query, leaving.signal);
  leaving.abort();
  expect(await left).toMatchObject({ complete: false, totals: { calls: 0 } });
  expect(await thread.read(query)).toMatchObject({ complete: true, totals: { calls: 30_000 } });
});

/** Counts how often this process has a file open. */
function countOpen(file: string): number {
  return readdirSync('/proc/self/fd').filter((name) => {
    try {
      return readlinkSync(`/proc/self/fd/${name}`) === file;
    } catch {
      // Closed meanwhile.
      return false;
    }
  }).length;
}
