import { appendFileSync, mkdirSync, mkdtempSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, expect, test, vi } from 'vitest';
import { type CallEntry, openJournal } from '../../../src/observability/journal/journal.ts';
import {
  type EntryFilter,
  isFailure,
  type RecordedCall,
  readCalls,
  searchEntries,
} from '../../../src/observability/journal/read-entries.ts';
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
  const { ino } = statSync(file);
  expect((await readCalls(file, 's', { limit: 5, before: `${ino}-999999999999999` })).calls).toHaveLength(1);
  // Older files are deleted first, so nothing is left before a file that is gone.
  expect(await readCalls(file, 's', { limit: 5, before: `${ino + 1}-50` })).toEqual({ calls: [], next: null });
  writeFileSync(file, '');
  expect(await readCalls(file, 's', { limit: 5 })).toEqual({ calls: [], next: null });
});

test('one page searches a limited part of the file, and the next one continues there', async () => {
  const file = join(folder, 'large.jsonl');
  const other = `{"time":"t","kind":"call","id":"x","sessionId":"other","name":"${'n'.repeat(200)}"}\n`;
  writeFileSync(file, `{"time":"t","kind":"call","id":"first","sessionId":"s"}\n${other.repeat(2000)}`);
  const page = await readCalls(file, 's', { limit: 5 }, 100_000);
  expect(page.calls).toEqual([]);
  expect(page.next).toMatch(/^\d+-[1-9]\d*$/);
  expect((await readAllPages(file, 's', 5, 100_000)).map(({ id }) => id)).toEqual(['first']);
});

test('any lines, files, page sizes and limits give exactly the calls of the session, once and in order', async () => {
  const file = join(folder, 'any.jsonl');
  const closed = join(folder, 'any-20260101T000000000Z-000000.jsonl');
  const line = fc.record({
    time: fc.constant('t'),
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
      fc.nat(30),
      async (lines, limit, most, inFirst) => {
        const entries = lines.map(({ padding, ...rest }, id) => ({ ...rest, id, padding: 'é'.repeat(padding / 2) }));
        const write = (path: string, some: readonly object[]) =>
          writeFileSync(path, some.map((entry) => `${JSON.stringify(entry)}\n`).join(''));
        write(closed, entries.slice(0, inFirst));
        write(file, entries.slice(inFirst));
        const expected = entries.filter(({ kind, sessionId }) => kind === 'call' && sessionId === 's');
        const found = await readAllPages(file, 's', limit, most);
        expect(found.map(({ id }) => id)).toEqual(expected.map(({ id }) => id).reverse());
      },
    ),
    { numRuns: counts(60, 2000) },
  );
});

test('a file that is closed between two pages keeps its place', async () => {
  const file = join(folder, 'closing.jsonl');
  const line = (id: number) => `{"time":"t","kind":"call","id":"${id}","sessionId":"s"}\n`;
  writeFileSync(file, [1, 2, 3].map(line).join(''));
  const first = await readCalls(file, 's', { limit: 1 });
  renameSync(file, join(folder, 'closing-20260101T000000000Z-abcdef.jsonl'));
  writeFileSync(file, [4, 5].map(line).join(''));
  const second = await readCalls(file, 's', { limit: 5, before: first.next ?? undefined });
  expect([first, second].map(({ calls }) => calls.map(({ id }) => id))).toEqual([['3'], ['2', '1']]);
  expect((await readAllPages(file, 's', 2)).map(({ id }) => id)).toEqual(['5', '4', '3', '2', '1']);
});

const at = (minute: number) => `2026-11-18T09:${String(minute).padStart(2, '0')}:00.000Z`;
const entries = [
  { time: at(0), kind: 'session', event: 'created', sessionId: 'aa11', userId: 'ada' },
  { time: at(1), kind: 'process', event: 'started', sessionId: 'aa11', server: 'who', id: 'c1-x', pid: 7 },
  { time: at(2), kind: 'process', event: 'stderr', sessionId: 'aa11', server: 'who', line: 'up: session=aa11', pid: 7 },
  {
    ...{ time: at(3), kind: 'call', id: 'c1-x', sessionId: 'aa11', userId: 'ada', server: 'who' },
    ...tool('who__list'),
  },
  {
    ...{ time: at(4), kind: 'call', id: 'c2-x', sessionId: 'aa22', userId: 'bob', server: 'who' },
    ...tool('list', 'tool-error'),
  },
  {
    time: at(5),
    kind: 'file',
    id: 'c3-x',
    sessionId: 'aa22',
    tool: 'session_read_file',
    asked: '../x',
    decision: 'refused',
  },
  { time: at(6), kind: 'refusal', event: 'credential', status: 401 },
  { time: at(7), kind: 'push', sessionId: 'aa11', server: 'who', method: 'm', outcome: 'undelivered' },
];

function tool(name: string, outcome = 'ok') {
  return { method: 'tools/call', name, outcome };
}

test.each<[EntryFilter, number[]]>([
  [{}, [7, 6, 5, 4, 3, 2, 1, 0]],
  [{ session: 'aa11' }, [7, 3, 2, 1, 0]],
  [{ session: 'aa' }, [7, 5, 4, 3, 2, 1, 0]],
  [{ sessionIds: ['aa22', 'aa'] }, [5, 4]],
  [{ sessionIds: ['aa22', 'aa11'], kind: 'call' }, [4, 3]],
  [{ user: 'ada' }, [3, 0]],
  [{ user: 'ad' }, []],
  [{ server: 'who', kind: 'process' }, [2, 1]],
  [{ tool: 'list' }, [4, 3]],
  [{ tool: 'who__list' }, [4, 3]],
  [{ tool: 'session_read_file' }, [5]],
  [{ id: 'c1' }, [3, 1]],
  [{ outcome: 'ok' }, [3]],
  [{ outcome: 'tool-error' }, [4]],
  [{ outcome: 'refused' }, [5]],
  [{ outcome: 'error' }, [6, 5, 4]],
  [{ outcome: 'refusal' }, [6]],
  [{ event: 'credential' }, [6]],
  [{ method: 'tools/call' }, [4, 3]],
  [{ kind: 'call', rule: '-' }, [4, 3]],
  [{ rule: 'no' }, []],
  [{ since: at(5), until: at(6) }, [6, 5]],
  [{ words: ['SESSION=AA11', 'up'] }, [2]],
  [{ words: ['session=aa11', 'down'] }, []],
])('%j finds its entries in all files', async (filter, expected) => {
  const file = join(folder, 'filtered.jsonl');
  const lines = entries.map((entry) => `${JSON.stringify(entry)}\n`);
  writeFileSync(join(folder, 'filtered-20261118T090300000Z-abcdef.jsonl'), lines.slice(0, 4).join(''));
  writeFileSync(file, lines.slice(4).join(''));
  const page = await searchEntries(file, filter, { limit: 50 });
  expect(page).toEqual({ entries: expected.map((i) => entries[i]), next: null, unreadable: 0 });
  expect(entries.filter(isFailure).map((entry) => entries.indexOf(entry))).toEqual([4, 5, 6]);
});

test('a search for recent entries does not read older files', async () => {
  const file = join(folder, 'recent.jsonl');
  writeFileSync(join(folder, 'recent-20261117T000000000Z-abcdef.jsonl'), 'not a line of a journal\n');
  writeFileSync(file, entries.map((entry) => `${JSON.stringify(entry)}\n`).join(''));
  const { entries: found, unreadable } = await searchEntries(file, { since: at(6) }, { limit: 50 });
  expect({ found: found.length, unreadable }).toEqual({ found: 2, unreadable: 0 });
});

test('damaged lines are counted and hide no other: torn, too long, not UTF-8, not an entry', async () => {
  const file = join(folder, 'hostile.jsonl');
  const good = (id: string) => `{"time":"${at(1)}","kind":"call","id":"${id}","note":"\\u202e\\u001b[31m"}\n`;
  const bad = [
    '{"time":"2026-',
    `{"time":"${at(1)}","kind":"call","pad":"${'x'.repeat(2_000_000)}"}`,
    '[1]',
    'null',
    '{"kind":"call"}',
    '{"time":1,"kind":"call"}',
    `{"time":"${at(1)}","kind":"call","outcome":{"toString":1}}`,
  ];
  const parts = [...bad.flatMap((line, i) => [good(`g${i}`), `${line}\n`]), good('last')].map((part) =>
    Buffer.from(part),
  );
  const invalid = Buffer.from(`{"time":"${at(1)}","kind":"call","id":"utf8","name":"\xff"}\n`, 'latin1');
  writeFileSync(file, Buffer.concat([...parts, invalid, Buffer.from('{"time":"unfinished')]));
  const page = await searchEntries(file, {}, { limit: 50 });
  expect(page.entries.map(({ id }) => id)).toEqual(['utf8', 'last', 'g6', 'g5', 'g4', 'g3', 'g2', 'g1', 'g0']);
  expect(page.entries[0]?.['name']).toBe('\ufffd');
  expect(page.unreadable).toBeGreaterThanOrEqual(bad.length + 1);
  expect(page.next).toBeNull();
});

/** Text in which a letter can be written in several ways, and text that JSON escapes. */
const tricky = fc.string({
  unit: fc.constantFrom(...'aÄäßİıΣσςοK"\\nu01éé日😀', '\n', '\u001b', '\u0000', '\u2028'),
  maxLength: 6,
});

test('words are found in any letters and any letter case, exactly where the values have them', async () => {
  const file = join(folder, 'letters.jsonl');
  const fold = (text: string) => text.toLowerCase().replaceAll('ς', 'σ');
  await fc.assert(
    fc.asyncProperty(fc.array(fc.tuple(tricky, tricky), { maxLength: 8 }), tricky, async (values, text) => {
      const all = values.map(([name, note], i) => ({ time: at(i), kind: 'call', name, note }));
      writeFileSync(file, all.map((entry) => `${JSON.stringify(entry)}\n`).join(''));
      const words = text.split(/\s+/).filter(Boolean);
      const has = (entry: object) => {
        const found = fold(Object.values(entry).join('\n'));
        return words.every((word) => found.includes(fold(word)));
      };
      const page = await searchEntries(file, { words }, { limit: 50 });
      expect(page.entries).toEqual(all.filter(has).reverse());
    }),
    { numRuns: counts(300, 10_000) },
  );
});

test('S7: a search parses only lines that may match, whatever letters its words have', async () => {
  const file = join(folder, 'parsed.jsonl');
  const line = (id: number) => `${JSON.stringify({ time: at(1), kind: 'call', id: `${id}`, name: 'müll' })}\n`;
  writeFileSync(file, Array.from({ length: 500 }, (_, id) => line(id)).join(''));
  const parse = vi.spyOn(JSON, 'parse');
  try {
    for (const filter of [
      { words: ['ä'] },
      { words: ['"'.repeat(5)] },
      { tool: 'a__b' },
      { outcome: 'x' },
      { rule: 'x' },
    ])
      expect((await searchEntries(file, filter, { limit: 5 })).entries).toEqual([]);
    expect(parse).not.toHaveBeenCalled();
  } finally {
    parse.mockRestore();
  }
});

/** A signal that counts how often it is asked, and is aborted after some of them. */
function countChecks(abortedAfter: number, note = () => {}) {
  let checks = 0;
  const signal = {
    get aborted() {
      note();
      return ++checks > abortedAfter;
    },
  };
  return { signal, count: () => checks };
}

/** A file that is read in about 50 pieces. */
function writeLarge(name: string): string {
  const file = join(folder, name, 'journal.jsonl');
  mkdirSync(join(folder, name), { recursive: true });
  const other = `{"time":"${at(1)}","kind":"call","id":"x","sessionId":"s","name":"${'n'.repeat(200)}"}\n`;
  writeFileSync(file, other.repeat(12_000));
  return file;
}

test('S7: a search for a client that has left ends at the next piece', async () => {
  const file = writeLarge('left');
  const nothing = { entries: [], next: null, unreadable: 0 };
  const whole = countChecks(Number.POSITIVE_INFINITY);
  await searchEntries(file, { words: ['nowhere'] }, { limit: 5, signal: whole.signal });
  expect(whole.count()).toBeGreaterThan(40);
  const left = countChecks(5);
  expect(await searchEntries(file, { words: ['nowhere'] }, { limit: 5, signal: left.signal })).toEqual(nothing);
  const calls = countChecks(5);
  expect(await readCalls(file, 'none', { limit: 5, signal: calls.signal })).toEqual({ calls: [], next: null });
  for (const { count } of [left, calls]) expect(count()).toBeLessThan(12);
});

test('S7: two pages are read at once, readers take turns, and one reader has a limited number waiting', async () => {
  const journal = openJournal(writeLarge('turns'), { warn() {} });
  const events: string[] = [];
  const search = async (reader: string, name: string) => {
    const begin = () => void (events.includes(`begin ${name}`) || events.push(`begin ${name}`));
    const { signal } = countChecks(10, begin);
    await journal.search({ words: ['nowhere'] }, { limit: 5, reader, signal });
    events.push(`end ${name}`);
  };
  const greedy = Array.from({ length: 20 }, (_, i) => search('greedy', `g${i}`));
  const other = search('other', 'o');
  const all = await Promise.allSettled([...greedy, other]);
  const refused = all.flatMap((each, i) => (each.status === 'rejected' ? [[i, each.reason.code]] : []));
  expect(refused).toEqual([18, 19].map((i) => [i, 'OVERLOADED']));
  let [running, most] = [0, 0];
  for (const event of events) {
    running += event.startsWith('begin') ? 1 : -1;
    most = Math.max(most, running);
  }
  expect(most).toBe(2);
  const begun = events.filter((event) => event.startsWith('begin'));
  // Two run, one of the greedy reader had waited before, and then it is the turn of the other one.
  expect(begun.indexOf('begin o')).toBe(3);
  await journal.close();
});
