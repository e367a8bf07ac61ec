import { describe, expect, it } from 'vitest';
import { findFamily, type ProcessFamily } from '../../../src/sandbox/processes/process-family.ts';
import type { ProcessEntry } from '../../../src/sandbox/processes/process-table.ts';

const entry = (pid: number, parts: Partial<ProcessEntry> = {}): ProcessEntry => ({
  pid,
  parent: 1,
  group: pid,
  session: pid,
  start: 1000,
  dead: false,
  ...parts,
});

const family = (parts: Partial<ProcessFamily> = {}): ProcessFamily => ({
  roots: [{ pid: 100, start: 1000 }],
  isOurs: (tmpDir) => tmpDir.startsWith('/root/'),
  since: 500,
  isSpared: () => false,
  ...parts,
});

function pidsOf(processes: ProcessEntry[], asked = family(), tmpDirs: Record<number, string[]> = {}): number[] {
  const tagged = processes.map((process) => ({ ...process, tmpDirs: tmpDirs[process.pid] ?? [] }));
  return findFamily(tagged, asked)
    .map((found) => found.pid)
    .sort((a, b) => a - b);
}

describe('findFamily', () => {
  it('follows parents, sessions and groups from the root and from whatever is found', () => {
    const processes = [
      entry(100),
      entry(101, { parent: 100 }),
      entry(102, { parent: 101 }),
      entry(103, { session: 102, group: 103 }),
      entry(104, { session: 9, group: 103 }),
      entry(200),
      entry(201, { parent: 200 }),
    ];
    expect(pidsOf(processes)).toEqual([100, 101, 102, 103, 104]);
  });

  it('finds the session of a root that has already left', () => {
    expect(pidsOf([entry(105, { session: 100, group: 105 }), entry(106)])).toEqual([105]);
  });

  it('takes a pid with another start time for a stranger, with all that belongs to it', () => {
    const processes = [entry(100, { start: 1001 }), entry(101, { parent: 100, start: 1002, session: 100 })];
    expect(pidsOf(processes)).toEqual([]);
  });

  it('claims nothing by a pid whose start time was never known', () => {
    const processes = [entry(100, { start: 0 }), entry(101, { session: 100 })];
    expect(pidsOf(processes, family({ roots: [{ pid: 100, start: 0 }], since: 0 }))).toEqual([]);
  });

  it('claims nothing that is older than the root, whatever its session says', () => {
    expect(pidsOf([entry(105, { session: 100, start: 999 })])).toEqual([]);
  });

  it('finds by TMPDIR, and follows from there', () => {
    const processes = [entry(300), entry(301, { parent: 300 }), entry(302)];
    const tmpDirs = { 300: ['/elsewhere', '/root/p1'], 302: ['/root-not/p1', '/tmp/root/'] };
    expect(pidsOf(processes, family({ roots: [] }), tmpDirs)).toEqual([300, 301]);
  });

  it('never returns init, spared processes, or those that started too early', () => {
    const processes = [entry(1, { start: 1000 }), entry(400), entry(401, { start: 499 }), entry(402, { parent: 400 })];
    const tmpDirs = { 1: ['/root/a'], 400: ['/root/a'], 401: ['/root/a'] };
    expect(pidsOf(processes, family({ isSpared: ({ pid }) => pid === 400 }), tmpDirs)).toEqual([]);
    expect(pidsOf(processes, family({ roots: [{ pid: 1, start: 1000 }], isSpared: () => false }))).toEqual([]);
  });

  it('does not return zombies, but their descendants', () => {
    const processes = [entry(100, { dead: true }), entry(101, { session: 100, group: 101 })];
    expect(pidsOf(processes)).toEqual([101]);
  });
});
