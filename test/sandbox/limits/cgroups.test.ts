import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { removeAllCgroups } from '../../../src/sandbox/limits/cgroup-notes.ts';
import { cgroupSettings, findCgroupsV2, parseHierarchies, readCount } from '../../../src/sandbox/limits/cgroups.ts';

const limits = { memoryMb: 200, pids: 30, cpus: 0.5, fileMb: 1, openFiles: 1, wallSeconds: 1 };

describe('the groups of this process', () => {
  test('are found in trees of version 1, each in its own folder', () => {
    const groups = '4:memory:/a/b\n3:cpu,cpuacct:/\n2:name=systemd:/user\n1:pids:/a\n';
    const mounts = [
      '35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory',
      '32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct',
      '40 31 0:37 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=systemd',
      '39 31 0:36 / /mnt/with\\040blank rw - cgroup cgroup rw,pids',
    ].join('\n');
    expect(parseHierarchies(groups, mounts)).toEqual([
      { version: 1, controllers: ['memory'], own: '/sys/fs/cgroup/memory/a/b' },
      { version: 1, controllers: ['cpu', 'cpuacct'], own: '/sys/fs/cgroup/cpu' },
      { version: 1, controllers: ['pids'], own: '/mnt/with blank/a' },
    ]);
  });

  test('are found in the tree of version 2, and in a container that sees only its own part', () => {
    const mount = (root: string) => `29 23 0:26 ${root} /sys/fs/cgroup rw - cgroup2 cgroup2 rw`;
    const at = (groups: string, root: string) => parseHierarchies(groups, mount(root)).map(({ own }) => own);
    expect(at('0::/user.slice/x\n', '/')).toEqual(['/sys/fs/cgroup/user.slice/x']);
    expect(at('0::/docker/abc\n', '/docker/abc')).toEqual(['/sys/fs/cgroup']);
    expect(at('0::/docker/abc/in\n', '/docker/abc')).toEqual(['/sys/fs/cgroup/in']);
    expect(at('0::/docker/abcdef\n', '/docker/abc')).toEqual([]);
    expect(at('0::/../other\n', '/')).toEqual([]);
  });
});

test('limits are written as the kernel reads them', () => {
  const said = (version: 1 | 2) =>
    (['memory', 'pids', 'cpu'] as const).flatMap((controller) =>
      cgroupSettings(version, controller, limits, 2).map(({ file, value }) => `${file}=${value}`),
    );
  expect(said(2)).toEqual([
    'memory.max=209715200',
    'memory.swap.max=0',
    'memory.oom.group=1',
    'pids.max=32',
    'cpu.max=50000 100000',
  ]);
  expect(said(1)).toEqual([
    'memory.limit_in_bytes=209715200',
    'memory.memsw.limit_in_bytes=209715200',
    'pids.max=32',
    'cpu.cfs_period_us=100000',
    'cpu.cfs_quota_us=50000',
  ]);
  expect(readCount('low 0\noom 3\noom_kill 2\n', 'oom_kill')).toBe(2);
  expect(readCount('max 7\n', 'max')).toBe(7);
  expect(readCount('', 'max')).toBe(0);
});

describe('version 2, on a fake tree', () => {
  let own = '';
  beforeEach(() => {
    own = mkdtempSync(join(tmpdir(), 'ambit-groups-'));
    group(own, { 'cgroup.controllers': 'cpu memory pids\n', 'cgroup.subtree_control': '', 'cgroup.procs': '10\n11\n' });
  });
  afterEach(() => rmSync(own, { recursive: true, force: true }));

  function group(folder: string, files: Record<string, string>): void {
    mkdirSync(folder, { recursive: true });
    for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text);
  }
  const trees = () => [{ version: 2 as const, controllers: [], own }];
  const read = (...path: string[]) => readFileSync(join(own, ...path), 'utf8');

  test('Ambit moves below its own group only when it is alone there', () => {
    expect(findCgroupsV2(trees(), () => new Set([10]))).toBeUndefined();
    expect(read('cgroup.subtree_control')).toBe('');
    // The kernel fills a new folder with files; nobody does here, so that no limit can be set in it.
    expect(findCgroupsV2(trees(), () => new Set([10, 11, 12]))).toBeUndefined();
    expect(read('ambit', 'cgroup.procs')).toBe('11');
    expect(read('cgroup.subtree_control')).toBe('+memory +pids +cpu');
  });

  test('nothing is moved where memory cannot be bounded', () => {
    writeFileSync(join(own, 'cgroup.controllers'), 'cpu hugetlb\n');
    expect(findCgroupsV2(trees(), () => new Set([10, 11]))).toBeUndefined();
    expect(read('cgroup.subtree_control')).toBe('');
  });

  test('a folder that is noted as a group and is none is not removed', async () => {
    const kept = join(own, 'ambit-x-p1');
    group(kept, { 'cgroup.procs': '' });
    group(join(own, 'instance'), {});
    group(join(own, 'instance/cgroups'), { p1: `${kept}\n/etc\n${own}\n` });
    await removeAllCgroups(join(own, 'instance'));
    expect(read('ambit-x-p1', 'cgroup.procs')).toBe('');
  });
});
