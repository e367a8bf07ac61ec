import { spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { openJournal } from '../../../src/observability/journal/journal.ts';
import { listClosedFiles } from '../../../src/observability/journal/journal-files.ts';
import { repository } from '../../structure/source-files.ts';

const dayMs = 86_400_000;
const megabyte = 1 << 20;

/** A folder with a journal whose clock the test sets. A limit of 1 MB makes files of an eighth of that. */
function createScene(limits = { keepDays: 30, maxTotalMb: 1 }) {
  const folder = mkdtempSync(join(tmpdir(), 'ambit-rotated-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const file = join(folder, 'journal.jsonl');
  const clock = { now: Date.now() };
  const warnings: string[] = [];
  const open = () =>
    openJournal(file, { warn: (event) => void warnings.push(event) }, { limits: () => limits, now: () => clock.now++ });
  return { folder, file, clock, warnings, open };
}

function readNumbers(paths: readonly string[]): number[] {
  return paths
    .flatMap((path) => readFileSync(path, 'utf8').split('\n').slice(0, -1))
    .map((line) => (JSON.parse(line) as { number?: number }).number)
    .filter((number) => number !== undefined);
}

const listAll = (file: string) => [...listClosedFiles(file), file];
const flush = (journal: ReturnType<typeof openJournal>) => journal.calls('nobody', { limit: 1 });

test('C3: a file is closed when it is large, no line is lost, and only the owner can read the files', async () => {
  const { folder, file, open } = createScene();
  const journal = open();
  for (let number = 0; number < 1000; number++) {
    journal.record({ kind: 'session', event: 'ended', number, detail: 'x'.repeat(500) });
    if (number % 100 === 99) await flush(journal);
  }
  await journal.close();
  const closed = listClosedFiles(file);
  expect(closed.length).toBeGreaterThan(2);
  expect(readNumbers(listAll(file))).toEqual(Array.from({ length: 1000 }, (_, i) => i));
  for (const path of closed) expect(statSync(path).size).toBeLessThan(2 * (megabyte / 8));
  for (const path of listAll(file)) expect(statSync(path).mode & 0o777).toBe(0o600);
  expect(readdirSync(folder)).toHaveLength(closed.length + 1);
});

test('C3: each day begins a new file', async () => {
  const { file, clock, open } = createScene();
  const journal = open();
  for (const number of [0, 1, 2]) {
    journal.record({ kind: 'session', event: 'ended', number });
    await flush(journal);
    clock.now += number === 0 ? 0 : dayMs;
  }
  await journal.close();
  // The lines have the real time; the clock of the test is a day ahead when the third is written.
  expect(listAll(file).map((path) => readNumbers([path]))).toEqual([[0, 1], [2]]);
});

test('a journal follows when another process closes the file, moves it away or removes it', async () => {
  const { folder, file, open } = createScene();
  const [one, other] = [open(), open()];
  const write = async (journal: typeof one, number: number) => {
    journal.record({ kind: 'session', event: 'ended', number, detail: 'x'.repeat(number === 1 ? 200_000 : 0) });
    await flush(journal);
  };
  await write(one, 0);
  for (let i = 0; i < 100; i++) one.record({ kind: 'session', event: 'ended', detail: 'x'.repeat(2000) });
  await flush(one);
  await write(one, 1);
  await write(other, 2);
  renameSync(file, join(folder, 'moved-by-hand.jsonl'));
  await write(one, 3);
  await write(other, 4);
  rmSync(file);
  await write(one, 5);
  await write(other, 6);
  await Promise.all([one.close(), other.close()]);
  expect(readNumbers(listClosedFiles(file))).toEqual([0]);
  expect(readNumbers([join(folder, 'moved-by-hand.jsonl')])).toEqual([1, 2]);
  expect(readNumbers([file])).toEqual([5, 6]);
});

test('C3: old and surplus files are deleted, oldest first, that is recorded, and other files stay', async () => {
  const { folder, file, clock, open } = createScene();
  const create = (name: string, days: number, bytes: number) => {
    writeFileSync(join(folder, name), Buffer.alloc(bytes, '\n'), { mode: 0o600 });
    utimesSync(join(folder, name), clock.now / 1000, clock.now / 1000 - days * 86_400);
  };
  create('journal-20260101T000000000Z-000001.jsonl', 31, 1000);
  create('journal-20260102T000000000Z-000002.jsonl', 29, 300_000);
  create('journal-20260103T000000000Z-000003.jsonl', 28, 400_000);
  create('journal-20260104T000000000Z-000004.jsonl', 27, 400_000);
  const others = [
    'journal-old.jsonl',
    'other-20260101T000000000Z-000001.jsonl',
    'journal-20260101T000000000Z-000001.jsonl.gz',
  ];
  for (const name of others) create(name, 400, 2_000_000);
  const journal = open();
  await journal.close();
  expect(readdirSync(folder).sort()).toEqual(
    [
      ...others,
      'journal-20260103T000000000Z-000003.jsonl',
      'journal-20260104T000000000Z-000004.jsonl',
      'journal.jsonl',
    ].sort(),
  );
  const { until, ...recorded } = JSON.parse(readFileSync(file, 'utf8')) as { until: string };
  expect(recorded).toMatchObject({ kind: 'gateway', event: 'journal-deleted', files: 2, bytes: 301_000 });
  expect(Date.parse(until)).toBeCloseTo(clock.now - 29 * dayMs, -3);
});

test('where the file cannot be closed, lines go on into the open one', async () => {
  const { file, clock, warnings, open } = createScene();
  const journal = open();
  journal.record({ kind: 'session', event: 'ended', number: 0 });
  await flush(journal);
  // A folder in place of the next file: renaming works, opening does not.
  renameSync(file, `${file}.moved`);
  mkdirSync(file);
  clock.now += dayMs;
  for (const number of [1, 2]) {
    journal.record({ kind: 'session', event: 'ended', number });
    await journal.calls('nobody', { limit: 1 }).catch(() => {});
  }
  rmSync(file, { recursive: true });
  journal.record({ kind: 'session', event: 'ended', number: 3 });
  await journal.close();
  expect(warnings).toEqual(['journal cannot be rotated']);
  expect([readNumbers([`${file}.moved`]), readNumbers([file])]).toEqual([[0, 1, 2], [3]]);
});

test('C3: processes that write and rotate at the same time lose and tear no line', async () => {
  const { file } = createScene();
  const script = `
    const { openJournal } = await import(${JSON.stringify(join(repository, 'build/observability/journal/journal.js'))});
    const journal = openJournal(${JSON.stringify(file)}, { warn: (event) => { throw new Error(event); } },
      { limits: () => ({ keepDays: 30, maxTotalMb: 1 }), now: Date.now });
    const first = Number(process.argv[1]);
    for (let number = first; number < first + 300; number++) {
      journal.record({ kind: 'session', event: 'ended', number, detail: 'x'.repeat(500) });
      if (number % 10 === 0) await journal.calls('nobody', { limit: 1 });
    }
    await journal.close();`;
  const writers = [0, 1000, 2000].map((first) =>
    spawn(process.execPath, ['--input-type=module', '-e', script, String(first)], {
      stdio: ['ignore', 'ignore', 'inherit'],
    }),
  );
  const codes = await Promise.all(writers.map(async (writer) => (await once(writer, 'exit'))[0] as number));
  expect(codes).toEqual([0, 0, 0]);
  expect(listClosedFiles(file).length).toBeGreaterThan(1);
  const numbers = readNumbers(listAll(file));
  const expected = [0, 1000, 2000].flatMap((first) => Array.from({ length: 300 }, (_, i) => first + i));
  expect(numbers.sort((a, b) => a - b)).toEqual(expected);
});
