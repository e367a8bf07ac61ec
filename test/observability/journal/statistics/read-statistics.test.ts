import {
  appendFileSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { expect, onTestFinished, test } from 'vitest';
import { openJournal } from '../../../../src/observability/journal/journal.ts';
import { createStatisticsReader } from '../../../../src/observability/journal/statistics/read-statistics.ts';
import { completeRange, type Statistics } from '../../../../src/observability/journal/statistics/statistics.ts';
import { counts } from '../../../proof.ts';

const minute = 60_000;
const hour = 60 * minute;
const day = 24 * hour;
/** A whole day in UTC, so that the steps of an answer begin with it. */
const start = Date.UTC(2026, 10, 15);

type Line = Readonly<Record<string, unknown>> & { readonly time: string };

const at = (ms: number) => new Date(start + ms).toISOString();
const call = (ms: number, more: Readonly<Record<string, unknown>> = {}): Line => ({
  time: at(ms),
  kind: 'call',
  ...{ sessionId: 'a1', server: 'notes', method: 'tools/call', name: 'read', outcome: 'ok', ms: 5 },
  ...more,
});

function createScene() {
  const folder = mkdtempSync(join(tmpdir(), 'ambit-statistics-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const file = join(folder, 'journal.jsonl');
  let closed = 0;
  return {
    folder,
    file,
    append: (lines: readonly Line[], path = file) =>
      appendFileSync(path, lines.map((line) => `${JSON.stringify(line)}\n`).join('')),
    /** Closes the current file as the journal does. */
    close() {
      const path = join(folder, `journal-20261115T00000000${closed++}Z-abcdef.jsonl`);
      renameSync(file, path);
      return path;
    },
    summaries: () => (existsSync(join(folder, 'summaries')) ? readdirSync(join(folder, 'summaries')) : []),
    open: () => createStatisticsReader(file),
    /** All complete lines of the journal, however they came there. */
    lines: () =>
      readdirSync(folder)
        .filter((name) => name.endsWith('.jsonl'))
        .flatMap((name) => readFileSync(join(folder, name), 'utf8').split('\n').slice(0, -1))
        .flatMap((text): Line[] => {
          try {
            const line: unknown = JSON.parse(text);
            const isEntry = typeof line === 'object' && line !== null && 'time' in line;
            return isEntry && !JSON.stringify(line).includes('toString') ? [line as Line] : [];
          } catch {
            return [];
          }
        }),
  };
}

const isRefused = (outcome: unknown) => /^[A-Z_]+$/.test(String(outcome));
const countBy = (items: readonly string[]) => {
  const counts: Record<string, number> = {};
  for (const item of items) counts[item] = (counts[item] ?? 0) + 1;
  return counts;
};

/** Counts the same lines in another way: each number by itself. */
function countPlainly(all: readonly Line[], since: number, until: number) {
  const lines = all.filter(({ time }) => Date.parse(time) >= since && Date.parse(time) < until);
  const calls = lines.filter(({ kind, method }) => kind === 'call' && method === 'tools/call');
  const refused = lines.filter(({ kind, outcome }) => kind === 'call' && isRefused(outcome));
  const told = lines.filter(({ kind }) => kind === 'refusal');
  const refusals = [
    ...refused.map(({ rule, outcome }) => `${rule ?? null} ${outcome}`),
    ...told.flatMap(({ code, event, further }) => Array<string>(Number(further ?? 1)).fill(`null ${code ?? event}`)),
  ];
  const isEvent = (kind: string, event: string) =>
    lines.filter((line) => line['kind'] === kind && line['event'] === event);
  return {
    calls: calls.length,
    errors: calls.filter(({ outcome }) => outcome !== 'ok').length,
    refusals: refusals.length,
    sessionsOpened: isEvent('session', 'created').length,
    processes: { started: isEvent('process', 'started').length, failed: isEvent('process', 'start-failed').length },
    byRule: countBy(refusals),
    byTool: countBy(calls.map(({ server, name }) => `${server} ${name}`)),
    durations: calls
      .filter(({ outcome, ms }) => !isRefused(outcome) && ms !== undefined)
      .map(({ ms }) => Number(ms))
      .sort((one, other) => one - other),
  };
}

/** Expects all numbers of an answer to be those that another count gives. */
function expectSameNumbers(found: Statistics, lines: readonly Line[]): void {
  const [since, until] = [Date.parse(found.since), Date.parse(found.until)];
  const { byRule, byTool, durations, processes, ...numbers } = countPlainly(lines, since, until);
  const { p50, p99, ...totals } = found.totals;
  expect(totals).toEqual(numbers);
  expect(found.processes).toEqual(processes);
  expect(Object.fromEntries(found.refusalsByRule.map((row) => [`${row.rule} ${row.code}`, row.count]))).toEqual(byRule);
  expect(Object.fromEntries(found.tools.map((row) => [`${row.server} ${row.tool}`, row.calls]))).toEqual(byTool);
  for (const [part, estimate] of [
    [0.5, p50],
    [0.99, p99],
  ] as const) {
    const exact = durations[Math.ceil(durations.length * part) - 1];
    if (exact === undefined) expect(estimate).toBeNull();
    else expect(Math.abs((estimate as number) - exact)).toBeLessThanOrEqual(Math.max(0.01, exact * 0.05));
  }
  const stepMs = found.stepSeconds * 1000;
  expect(found.series.length).toBeLessThanOrEqual(120);
  expect(found.series.map((step) => Date.parse(step.at))).toEqual(found.series.map((_, i) => since + i * stepMs));
  const byStep = new Map(found.series.map((step) => [step.at, [] as Line[]]));
  for (const line of lines) {
    const step = Math.floor((Date.parse(line.time) - since) / stepMs) * stepMs + since;
    byStep.get(new Date(step).toISOString())?.push(line);
  }
  for (const { at: from, calls, errors, refusals } of found.series)
    expect(countPlainly(byStep.get(from) ?? [], since, until)).toMatchObject({ calls, errors, refusals });
}

const lineOf = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      kind: fc.constant('call'),
      sessionId: fc.constantFrom('a1', 'b2'),
      server: fc.constantFrom('notes', 'files', '*'),
      method: fc.constantFrom('tools/call', 'tools/call', 'tools/list'),
      name: fc.constantFrom('read', 'write', 'say "x"'),
      outcome: fc.constantFrom(
        'ok',
        'ok',
        'tool-error',
        'server-error',
        'PERMISSION_DENIED',
        'QUOTA_EXCEEDED',
        '-32602',
      ),
      rule: fc.constantFrom('default', 'no-writes', undefined),
      ms: fc.oneof(
        fc.nat(20_000).map((n) => n / 100),
        fc.double({ min: 0, max: 1e7, noNaN: true }),
      ),
    }),
  },
  fc.record({
    kind: fc.constant('refusal'),
    event: fc.constantFrom('credential', 'host', 'call'),
    code: fc.constantFrom('UNAUTHENTICATED', undefined),
    further: fc.constantFrom(undefined, 1, 7),
    sessionId: fc.constantFrom('a1', undefined),
  }),
  fc.record({ kind: fc.constant('session'), event: fc.constantFrom('created', 'ended'), sessionId: fc.constant('b2') }),
  fc.record({
    kind: fc.constant('process'),
    event: fc.constantFrom('started', 'start-failed', 'ended', 'stderr'),
    line: fc.constantFrom('"event":"started"', 'x'),
  }),
  fc.record({
    kind: fc.constantFrom('push', 'file', 'gateway', 'egress', 'other'),
    outcome: fc.constant('ok'),
    event: fc.constant('created'),
  }),
);

/** Lines that the journal does not write: cut off, too long, of another program. */
const damage = fc.constantFrom(
  '{"time":"2026-11-15T00:00:01.000Z","kind":"call","ou',
  'null',
  '[]',
  '"call"',
  '{"time":7,"kind":"call"}',
  `{"time":"${at(0)}","kind":"call","outcome":{"toString":1},"method":"tools/call"}`,
  `{"x":"${'y'.repeat(3000)}"}`,
  '\u0000\ufffd',
);

test('every number is what another count of the same lines gives, through rotation, late lines and a new reader', async () => {
  const piece = fc.record({
    lines: fc.array(fc.tuple(fc.nat(26 * hour), lineOf), { maxLength: 40 }),
    damaged: fc.array(damage, { maxLength: 2 }),
    closes: fc.boolean(),
    isLate: fc.boolean(),
    restarts: fc.boolean(),
  });
  await fc.assert(
    fc.asyncProperty(
      fc.array(piece, { minLength: 1, maxLength: 6 }),
      fc.constantFrom(0, 3, 40),
      async (pieces, hours) => {
        const { file, append, close, open, lines } = createScene();
        let reader = open();
        let last: string | undefined;
        for (const { lines: some, damaged, closes, isLate, restarts } of pieces) {
          const written = some.map(([ms, line]) => ({ time: at(ms), ...line }));
          for (const text of damaged) appendFileSync(file, `${text}\n`);
          // Another process may still add lines to a file that was closed.
          append(written, isLate ? (last ?? file) : file);
          if (closes && existsSync(file)) last = close();
          if (restarts) reader = open();
          const range = { since: start + hours * minute, until: start + day + hour };
          const found = await reader.read({ ...range, maxWaitMs: 60_000 });
          expect(found.complete).toBe(true);
          expectSameNumbers(found, lines());
          const ofOne = await reader.read({ ...range, session: 'a', maxWaitMs: 60_000 });
          expectSameNumbers(
            ofOne,
            lines().filter(({ sessionId }) => sessionId === 'a1'),
          );
        }
      },
    ),
    { numRuns: counts(12, 1000) },
  );
});

test('steps have one minute in an hour and at most 120 steps in 30 days, and begin at the same times later', async () => {
  const { append, open } = createScene();
  append(Array.from({ length: 720 }, (_, i) => call(i * hour)));
  const reader = open();
  const until = start + 30 * day;
  const steps = async (since: number, end = until) => (await reader.read({ since, until: end })).stepSeconds;
  expect(await steps(until - hour)).toBe(60);
  expect(await steps(until - day)).toBe(900);
  expect(await steps(until - 30 * day)).toBe(21_600);
  const [one, later] = [
    await reader.read({ since: until - day, until }),
    await reader.read({ since: until - day + 7 * minute, until: until + 7 * minute }),
  ];
  expect(later.series.map((each) => each.at)).toEqual(
    expect.arrayContaining(one.series.slice(1).map((each) => each.at)),
  );
  expect(one.totals.calls).toBe(24);
});

test('a closed file is counted once, and again only if it has changed', async () => {
  const { folder, append, close, open, summaries } = createScene();
  append([call(0), call(minute)]);
  const path = close();
  append([call(2 * minute)]);
  const query = { since: start, until: start + hour };
  expect((await open().read(query)).totals.calls).toBe(3);
  expect(summaries()).toEqual(['journal-20261115T000000000Z-abcdef.json']);
  const summary = join(folder, 'summaries', summaries()[0] as string);
  expect([statSync(summary).mode & 0o777, statSync(join(folder, 'summaries')).mode & 0o777]).toEqual([0o600, 0o700]);

  // The summary is used: what it says is told.
  writeFileSync(summary, readFileSync(summary, 'utf8').replaceAll('"read"', '"known"'));
  expect((await open().read(query)).tools.map(({ tool }) => tool).sort()).toEqual(['known', 'read']);
  // A summary that is damaged, or of another state of the file, is made anew.
  for (const text of [
    '{"version":1',
    '{"version":1,"inode":1,"size":1}',
    readFileSync(summary, 'utf8').replace(/\[\[\[/, '[[[-1,'),
  ]) {
    writeFileSync(summary, text);
    expect((await open().read(query)).totals.calls).toBe(3);
    expect((JSON.parse(readFileSync(summary, 'utf8')) as { size: number }).size).toBe(statSync(path).size);
  }
  append([call(3 * minute)], path);
  expect((await open().read(query)).totals.calls).toBe(4);
  rmSync(path);
  expect((await open().read(query)).totals.calls).toBe(1);
  expect(summaries()).toEqual([]);
});

test('a file that another program has shortened or removed is counted as it is', async () => {
  const { file, append, open } = createScene();
  append([call(0), call(minute)]);
  const reader = open();
  const query = { since: start, until: start + hour };
  expect((await reader.read(query)).totals.calls).toBe(2);
  truncateSync(file, 0);
  append([call(minute)]);
  expect((await reader.read(query)).totals.calls).toBe(1);
  rmSync(file);
  expect(await reader.read(query)).toMatchObject({ complete: true, totals: { calls: 0, p50: null } });
});

test('the rest of a line is counted when it has been written', async () => {
  const { file, append, open } = createScene();
  append([call(0)]);
  const text = `${JSON.stringify(call(1))}\n`;
  appendFileSync(file, text.slice(0, 70));
  const reader = open();
  const query = { since: start, until: start + hour };
  expect((await reader.read(query)).totals.calls).toBe(1);
  appendFileSync(file, text.slice(70));
  expect((await reader.read(query)).totals.calls).toBe(2);
});

test('an answer does not wait for old files, and says that it is not complete', async () => {
  const { append, close, open } = createScene();
  for (const hours of [0, 1, 2]) {
    append(Array.from({ length: 2000 }, () => call(hours * hour)));
    close();
  }
  append([call(3 * hour)]);
  const reader = open();
  const query = { since: start, until: start + day };
  const early = await reader.read({ ...query, maxWaitMs: 0 });
  expect(early.complete).toBe(false);
  expect(early.totals.calls).toBeLessThan(6001);
  expect(await reader.read({ ...query, maxWaitMs: 60_000 })).toMatchObject({ complete: true, totals: { calls: 6001 } });
});

test('names that callers invent are counted together, and do not crowd out tools that exist', async () => {
  const { append, close, open } = createScene();
  const invented = Array.from({ length: 3000 }, (_, i) =>
    call(i * 20, { name: `x${i}`, outcome: 'PERMISSION_DENIED' }),
  );
  const elsewhere = Array.from({ length: 1500 }, (_, i) =>
    call(i * 20, { server: `s${i}`, outcome: 'SERVER_NOT_AVAILABLE' }),
  );
  const repeated = Array.from({ length: 600 }, (_, i) =>
    call(i, { name: `y${i % 250}`, outcome: 'PERMISSION_DENIED' }),
  );
  const long = call(0, { name: 'n'.repeat(2000), outcome: '-32602' });
  append([
    ...repeated,
    ...invented,
    ...elsewhere,
    long,
    call(hour, { name: 'read' }),
    call(hour, { name: 'notes__read' }),
  ]);
  const query = { since: start, until: start + 2 * hour };
  for (const step of ['current', 'closed', 'summarized']) {
    if (step === 'closed') close();
    const reader = open();
    const { tools, servers, totals } = await reader.read(query);
    expect(totals).toMatchObject({ calls: 5103, errors: 5101, refusals: 5100 });
    expect(tools.length).toBeLessThanOrEqual(201);
    expect(tools.find(({ server, tool }) => server === 'notes' && tool === 'read')).toMatchObject({
      calls: 2,
      errors: 0,
    });
    for (const rows of [tools, servers]) {
      expect(rows.reduce((sum, { calls }) => sum + calls, 0)).toBe(5103);
      expect(rows.reduce((sum, { errors }) => sum + errors, 0)).toBe(5101);
    }
    expect(servers.find(({ server }) => server === 'notes')?.calls).toBe(3603);
  }
});

test('the thread of a journal counts what was recorded before, and retention removes a summary with its file', async () => {
  const { folder, file, summaries } = createScene();
  const clock = { now: Date.now() };
  const limits = { keepDays: 30, maxTotalMb: 1 };
  const open = () => openJournal(file, { warn() {} }, { limits: () => limits, now: () => clock.now++ });
  const journal = open();
  const query = () => ({ since: Date.now() - hour, until: Date.now(), maxWaitMs: 60_000 });
  for (let i = 0; i < 400; i++) journal.record({ kind: 'session', event: 'created', detail: 'x'.repeat(500) });
  expect(await journal.statistics(query())).toMatchObject({ complete: true, totals: { sessionsOpened: 400 } });
  // Another process writes to the same file, and closes it.
  const other = open();
  other.record({ kind: 'session', event: 'created' });
  await other.close();
  expect((await journal.statistics(query())).totals.sessionsOpened).toBe(401);
  journal.record({ kind: 'session', event: 'created' });
  expect((await journal.statistics(query())).totals.sessionsOpened).toBe(402);
  expect(summaries()).toHaveLength(readdirSync(folder).length - 2);
  clock.now += 31 * day;
  await journal.close();
  const late = open();
  await late.close();
  expect([summaries(), readdirSync(folder).sort()]).toEqual([[], ['journal.jsonl', 'summaries']]);
});

test('a time range is checked', () => {
  const until = at(0);
  expect(completeRange({ until })).toEqual({ since: start - day, until: start });
  for (const since of [until, at(1), at(-32 * day)])
    expect(() => completeRange({ since, until })).toThrow(expect.objectContaining({ code: 'REQUEST_INVALID' }));
});
