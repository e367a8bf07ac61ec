import { appendFileSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, expect, test } from 'vitest';
import { type CallEntry, openJournal } from '../../../src/observability/journal/journal.ts';
import { type RecordedCall, readCalls } from '../../../src/observability/journal/read-calls.ts';
import { counts } from '../../proof.ts';

const folder = mkdtempSync(join(tmpdir(), 'ambit-journal-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const createCall = (id: string, sessionId: string | undefined, more: Partial<CallEntry> = {}): CallEntry => ({
  id,
  sessionId,
  userId: 'ada',
  entrance: 'http',
  era: 'modern',
  server: 'notes',
  method: 'tools/call',
  name: 'read',
  outcome: 'ok',
  rule: undefined,
  ms: 1.5,
  bytesIn: 10,
  bytesOut: 20,
  ...more,
});

async function readAllPages(file: string, sessionId: string, limit: number, most?: number): Promise<RecordedCall[]> {
  const calls: RecordedCall[] = [];
  for (let before: string | null | undefined, pages = 0; before !== null; pages++) {
    const page = await readCalls(file, sessionId, { limit, before }, most);
    expect(page.calls.length).toBeLessThanOrEqual(limit);
    expect(pages).toBeLessThan(5000);
    calls.push(...page.calls);
    before = page.next;
  }
  return calls;
}

test('lists the calls of one session, newest first, including the latest', async () => {
  const file = join(folder, 'own', 'journal.jsonl');
  const journal = openJournal(file, { warn() {} });
  journal.record({ kind: 'session', event: 'created', sessionId: 'one' });
  journal.recordCall(createCall('1', 'one'));
  journal.recordCall(createCall('2', 'two'));
  journal.recordCall(
    createCall('3', undefined, { name: '"sessionId":"one"', method: '{"kind":"call","sessionId":"one"}' }),
  );
  journal.recordCall(createCall('4', 'one', { outcome: 'PERMISSION_DENIED', rule: 'no', name: undefined }));
  journal.recordCall(createCall('5', 'one-and-more'));
  const { calls, next } = await journal.calls('one', { limit: 10 });
  expect(calls.map(({ id }) => id)).toEqual(['4', '1']);
  expect(calls[0]).toEqual({
    at: expect.stringMatching(/^\d{4}-.*Z$/),
    id: '4',
    server: 'notes',
    method: 'tools/call',
    outcome: 'PERMISSION_DENIED',
    rule: 'no',
    entrance: 'http',
    era: 'modern',
    ms: 1.5,
    bytesIn: 10,
    bytesOut: 20,
  });
  expect(next).toBeNull();
  await journal.close();
  expect((await journal.calls('one', { limit: 1 })).calls.map(({ id }) => id)).toEqual(['4']);
});

test('entries added meanwhile do not shift the pages', async () => {
  const file = join(folder, 'moving.jsonl');
  const line = (id: number) => `{"time":"t","kind":"call","id":"${id}","sessionId":"s"}\n`;
  writeFileSync(file, [1, 2, 3, 4].map(line).join(''));
  const first = await readCalls(file, 's', { limit: 2 });
  appendFileSync(file, line(5));
  const second = await readCalls(file, 's', { limit: 2, before: first.next ?? undefined });
  expect([first, second].map(({ calls }) => calls.map(({ id }) => id))).toEqual([
    ['4', '3'],
    ['2', '1'],
  ]);
  expect(second.next).toBeNull();
});

test('torn lines and other lines are skipped; a cursor beyond the file means its end', async () => {
  const file = join(folder, 'torn.jsonl');
  const good = '{"time":"t","kind":"call","id":"1","sessionId":"s"}\n';
  writeFileSync(
    file,
    `${good}{"time":"t","kind":"call","id":"2","sessionId":"s"\n${'x'.repeat(70_000)}\n{"sessionId":"s","ki`,
  );
  expect((await readAllPages(file, 's', 10)).map(({ id }) => id)).toEqual(['1']);
  expect((await readCalls(file, 's', { limit: 5, before: '999999999999999' })).calls).toHaveLength(1);
  writeFileSync(file, '');
  expect(await readCalls(file, 's', { limit: 5 })).toEqual({ calls: [], next: null });
});

test('one page searches a limited part of the file, and the next one continues there', async () => {
  const file = join(folder, 'large.jsonl');
  const other = `{"time":"t","kind":"call","id":"x","sessionId":"other","name":"${'n'.repeat(200)}"}\n`;
  writeFileSync(file, `{"time":"t","kind":"call","id":"first","sessionId":"s"}\n${other.repeat(2000)}`);
  const page = await readCalls(file, 's', { limit: 5 }, 100_000);
  expect(page.calls).toEqual([]);
  expect(Number(page.next)).toBeGreaterThan(0);
  expect((await readAllPages(file, 's', 5, 100_000)).map(({ id }) => id)).toEqual(['first']);
});

test('any lines, page sizes and limits give exactly the calls of the session, once and in order', async () => {
  const file = join(folder, 'any.jsonl');
  const line = fc.record({
    sessionId: fc.constantFrom('s', 't'),
    kind: fc.constantFrom('call', 'push'),
    padding: fc.oneof(fc.nat(40), fc.constantFrom(65_480, 65_500, 65_536, 66_000)),
    text: fc.string({ maxLength: 10 }),
  });
  await fc.assert(
    fc.asyncProperty(
      fc.array(line, { maxLength: 30 }),
      fc.integer({ min: 1, max: 8 }),
      fc.constantFrom(undefined, 70_000, 140_000),
      async (lines, limit, most) => {
        const entries = lines.map(({ padding, ...rest }, id) => ({ ...rest, id, padding: 'é'.repeat(padding / 2) }));
        writeFileSync(file, entries.map((entry) => `${JSON.stringify(entry)}\n`).join(''));
        const expected = entries.filter(({ kind, sessionId }) => kind === 'call' && sessionId === 's');
        const found = await readAllPages(file, 's', limit, most);
        expect(found.map(({ id }) => id)).toEqual(expected.map(({ id }) => id).reverse());
      },
    ),
    { numRuns: counts(60, 2000) },
  );
});
