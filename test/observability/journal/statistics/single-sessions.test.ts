import { mkdtempSync, readdirSync, readlinkSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { createStatisticsReader } from '../../../../src/observability/journal/statistics/read-statistics.ts';

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
