import { mkdirSync, rmdirSync, writeFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { readText } from '../../lib/fs/if-present.ts';
import { forgetCgroups, noteCgroups } from './cgroup-notes.ts';
import type { ResourceLimits } from './limits.ts';

export type Controller = 'memory' | 'pids' | 'cpu';

interface CgroupSetting {
  readonly file: string;
  readonly value: string;
  /** Optional where some kernels do not have it. */
  readonly optional?: true;
}

const periodUs = 100_000;

export interface KernelRefusals {
  /** Processes that were killed for lack of memory. */
  readonly memory: number;
  /** Processes and threads that were not started. */
  readonly pids: number;
}

const refusalFiles = {
  memory: { 1: 'memory.oom_control', 2: 'memory.events' },
  pids: { 1: 'pids.events', 2: 'pids.events' },
} as const;

/** A group in the trees of all controllers, or the folders in which groups are made. */
export type CgroupFolders = ReadonlyMap<Controller, string>;

/** The group of an owner. It limits everything below it: each process has its own group there, without limits. */
export interface OwnerCgroup {
  /** Throws when a limit cannot be set. `helperCount` is the number of processes that are not a server's own. */
  bound(limits: ResourceLimits, helperCount: number): void;
  /** Adds a group for the process with this private folder. The reaper removes it. */
  add(tmpDir: string): ProcessCgroup;
  /** Removes the group once nothing is below it. A group that cannot be removed now goes with the instance. */
  remove(): void;
}

export interface ProcessCgroup {
  join(pid: number): Promise<void>;
  /** Refusals since this process was added. Memory counts for all processes of the owner: all of them are affected. */
  refusals(): KernelRefusals;
}

/** Counts the owners of all limiters in this process. */
let ownerCount = 0;

/** Creates a group for an owner whose processes have their private folders in `tmpRoot`. */
export function createOwnerCgroup(version: 1 | 2, bases: CgroupFolders, tmpRoot: string): OwnerCgroup {
  const instance = basename(tmpRoot).replace(/^instance-/, '');
  const name = `owner-${++ownerCount}`;
  const own = cgroupFoldersIn(bases, `ambit-${instance}-${name}`);
  let before: ResourceLimits | undefined;
  /** Processes that were killed for lack of memory, as of the last check. */
  let killed = 0;
  // Version 1 counts in the group of the refused process, version 2 in the group with the limit.
  const watchKilled = (group: CgroupFolders) => {
    let seen = 0;
    return () => {
      const now = countRefusals(version, 'memory', group);
      killed += Math.max(0, now - seen);
      seen = now;
    };
  };
  const countKilled = watchKilled(own);
  noteCgroups(join(tmpRoot, name), listFolders(own));
  try {
    makeFolders(own);
  } catch (error) {
    removeFolders(own);
    throw error;
  }
  return {
    bound(limits, helperCount) {
      const grows = before !== undefined && limits.memoryMb > before.memoryMb;
      writeLimits(version, own, limits, helperCount, grows);
      before = limits;
    },
    add(tmpDir) {
      const folders = cgroupFoldersIn(own, `ambit-${instance}-${basename(tmpDir)}`);
      noteCgroups(tmpDir, listFolders(folders));
      makeFolders(folders);
      countKilled();
      const killedBefore = killed;
      const pidsBefore = countRefusals(version, 'pids', own);
      const countKilledBelow = watchKilled(folders);
      return {
        async join(pid) {
          // The kernel is slow here, so this does not block the event loop.
          await Promise.all(listFolders(folders).map((folder) => writeFile(join(folder, 'cgroup.procs'), String(pid))));
        },
        refusals() {
          countKilled();
          countKilledBelow();
          const pids = countRefusals(version, 'pids', folders) + countRefusals(version, 'pids', own) - pidsBefore;
          return { memory: killed - killedBefore, pids };
        },
      };
    },
    remove() {
      if (removeFolders(own)) forgetCgroups(join(tmpRoot, name));
    },
  };
}

/** The groups of this name below others. */
export function cgroupFoldersIn(bases: CgroupFolders, name: string): CgroupFolders {
  return new Map([...bases].map(([controller, base]) => [controller, join(base, name)]));
}

/** Makes groups; throws for an existing one. */
export function makeFolders(folders: CgroupFolders): void {
  for (const folder of listFolders(folders)) mkdirSync(folder);
}

/** Returns whether all of them are gone. */
export function removeFolders(folders: CgroupFolders): boolean {
  return listFolders(folders).map(removeFolder).every(Boolean);
}

/**
 * Throws when a limit cannot be set. Memory with swap is never less than memory, so a growing limit is written in
 * reverse.
 */
export function writeLimits(
  version: 1 | 2,
  folders: CgroupFolders,
  limits: ResourceLimits,
  helperCount: number,
  grows: boolean,
): void {
  for (const [controller, folder] of folders) {
    const settings = cgroupSettings(version, controller, limits, helperCount);
    for (const setting of grows ? settings.reverse() : settings) writeSetting(folder, setting);
  }
}

function writeSetting(folder: string, { file, value, optional }: CgroupSetting): void {
  try {
    // The file is never created: without the file there is no such limit.
    writeFileSync(join(folder, file), value, { flag: 'r+' });
  } catch (error) {
    if (optional !== true) throw error;
  }
}

function removeFolder(folder: string): boolean {
  try {
    rmdirSync(folder);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'ENOENT';
  }
}

const listFolders = (folders: CgroupFolders): string[] => [...new Set(folders.values())];

function countRefusals(version: 1 | 2, controller: 'memory' | 'pids', group: CgroupFolders): number {
  const file = join(group.get(controller) ?? '', refusalFiles[controller][version]);
  return readCount(readText(file), controller === 'memory' ? 'oom_kill' : 'max');
}

/** `helperCount` is the number of processes in the group that are not the server's own. */
export function cgroupSettings(
  version: 1 | 2,
  controller: Controller,
  { memoryMb, pids, cpus }: ResourceLimits,
  helperCount: number,
): CgroupSetting[] {
  const bytes = String(memoryMb * 1024 * 1024);
  const quota = String(Math.round(cpus * periodUs));
  if (controller === 'pids') return [{ file: 'pids.max', value: String(pids + helperCount) }];
  if (controller === 'cpu') {
    return version === 2
      ? [{ file: 'cpu.max', value: `${quota} ${periodUs}` }]
      : [
          { file: 'cpu.cfs_period_us', value: String(periodUs) },
          { file: 'cpu.cfs_quota_us', value: quota },
        ];
  }
  return version === 2
    ? [
        { file: 'memory.max', value: bytes },
        { file: 'memory.swap.max', value: '0', optional: true },
        // The kernel would kill one process, but a server needs all of them.
        { file: 'memory.oom.group', value: '1', optional: true },
      ]
    : [
        { file: 'memory.limit_in_bytes', value: bytes },
        { file: 'memory.memsw.limit_in_bytes', value: bytes, optional: true },
      ];
}

export function readCount(text: string, name: string): number {
  return Number(new RegExp(`^${name} (\\d+)$`, 'm').exec(text)?.[1] ?? 0);
}
