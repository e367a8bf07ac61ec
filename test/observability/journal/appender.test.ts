import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { appendFileSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { openJournal } from '../../../src/observability/journal/journal.ts';

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
