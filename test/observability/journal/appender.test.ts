import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { appendFileSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { openJournal } from '../../../src/observability/journal/journal.ts';
import { measureKeptMb } from '../../lib/collect-garbage.ts';
import { proof } from '../../proof.ts';

const call = {
  ...{ id: 'x', sessionId: 's', userId: 'u', entrance: 'http', era: 'modern', server: 'notes', method: 'tools/call' },
  ...{ outcome: 'ok', rule: undefined, ms: 1, bytesIn: 1, bytesOut: 1 },
};

interface Line {
  readonly kind: string;
  readonly [field: string]: unknown;
}

/** A disk of 64 kB: a file system in memory, mounted by another process and used through /proc. */
async function openSmallDisk(): Promise<string> {
  const place = mkdtempSync(join(tmpdir(), 'ambit-disk-'));
  const mount = ['--dev-bind', '/', '/', '--size', '65536', '--tmpfs', place];
  const owner = spawn('bwrap', [...mount, 'sh', '-c', 'echo $$; exec cat'], { stdio: ['pipe', 'pipe', 'inherit'] });
  onTestFinished(async () => {
    owner.stdin.end();
    await once(owner, 'close');
    rmSync(place, { recursive: true, force: true });
  });
  const [pid] = (await once(owner.stdout, 'data')) as [Buffer];
  return `/proc/${pid.toString().trim()}/root${place}`;
}

const readEntries = (file: string): Line[] =>
  readFileSync(file, 'utf8')
    .split('\n')
    .slice(0, -1)
    .map((line) => {
      try {
        return JSON.parse(line) as Line;
      } catch {
        return { kind: 'broken' };
      }
    });

test('S9: after a full disk the journal records how many entries it lost, and no other line is torn', async () => {
  const disk = await openSmallDisk();
  const file = join(disk, 'journal', 'journal.jsonl');
  const warnings: string[] = [];
  const journal = openJournal(file, { warn: (event) => void warnings.push(event) });
  const flushed = () => journal.calls('nobody', { limit: 1 });
  let recorded = 0;
  const record = (many: number) => {
    for (let i = 0; i < many; i++) journal.record({ kind: 'session', event: 'ended', number: recorded++ });
  };
  record(10);
  await flushed();
  // One free page is left for the journal: the line that reaches its end is torn.
  const page = 4096;
  writeFileSync(join(disk, 'filler'), Buffer.alloc(65_536 - 3 * page));
  record(200);
  await flushed();
  expect(statSync(file).size % page).toBe(0);
  record(50);
  await flushed();
  expect(warnings).toEqual(['journal cannot be written']);
  rmSync(join(disk, 'filler'));
  record(5);
  await flushed();
  await journal.close();
  expect(warnings).toEqual(['journal cannot be written', 'journal writable again']);
  const lines = readEntries(file);
  const kept = lines.filter(({ kind }) => kind === 'session').map(({ number }) => number as number);
  const said = lines.filter(({ event }) => event === 'entries-lost');
  expect(said).toEqual([
    expect.objectContaining({ kind: 'gateway', entries: recorded - kept.length, error: 'ENOSPC' }),
  ]);
  expect(kept.slice(-5)).toEqual([260, 261, 262, 263, 264]);
  expect(kept.slice(0, -5)).toEqual(Array.from({ length: kept.length - 5 }, (_, i) => i));
  expect(lines.filter(({ kind }) => kind === 'broken')).toHaveLength(1);
});

test('entries of calls keep their order among the others, also if their texts are long', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'ambit-order-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const file = join(folder, 'journal.jsonl');
  const journal = openJournal(file, { warn() {} });
  const recordCall = (name: string) => journal.recordCall({ ...call, name });
  const names = ['a', 'b', `c${'x'.repeat(5000)}`, 'd', 'e'];
  for (const name of names.slice(0, 4)) recordCall(name);
  journal.record({ kind: 'gateway', event: 'opened' });
  recordCall('e');
  await journal.close();
  expect(readEntries(file).map(({ kind, name }) => `${kind} ${String(name ?? '').slice(0, 1)}`.trim())).toEqual([
    ...['call a', 'call b', 'call c', 'call d', 'gateway', 'call e'],
  ]);
});

test.runIf(proof)('while the disk is slow, waiting entries take no more than what is recorded', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'ambit-slow-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const journal = openJournal(join(folder, 'journal.jsonl'), { warn() {} });
  const kept = measureKeptMb(() => {
    for (let i = 0; i < 900; i++) journal.recordCall({ ...call, name: Buffer.alloc(200_000, 'x').toString() });
    return journal;
  });
  expect(kept).toBeLessThan(10);
  await journal.close();
});

test('S9: a torn line of a crashed process does not corrupt the next one', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'ambit-torn-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const file = join(folder, 'journal.jsonl');
  appendFileSync(file, '{"time":"2026-', { mode: 0o600 });
  const journal = openJournal(file, { warn() {} });
  journal.record({ kind: 'gateway', event: 'opened' });
  await journal.close();
  expect(readEntries(file).map(({ kind }) => kind)).toEqual(['broken', 'gateway']);
});
