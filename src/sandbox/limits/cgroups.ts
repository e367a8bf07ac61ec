import { mkdirSync, rmdirSync, writeFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { readText } from '../../lib/fs/if-present.ts';
import { forgetCgroups, listCgroupMembers, noteCgroups } from './cgroup-notes.ts';
import { type ResourceLimits, trialLimits } from './limits.ts';

type Controller = 'memory' | 'pids' | 'cpu';

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
type CgroupFolders = ReadonlyMap<Controller, string>;

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
function createOwnerCgroup(version: 1 | 2, bases: CgroupFolders, tmpRoot: string): OwnerCgroup {
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
function cgroupFoldersIn(bases: CgroupFolders, name: string): CgroupFolders {
  return new Map([...bases].map(([controller, base]) => [controller, join(base, name)]));
}

/** Makes groups; throws for an existing one. */
export function makeFolders(folders: CgroupFolders): void {
  for (const folder of listFolders(folders)) mkdirSync(folder);
}

/** Returns whether all of them are gone. */
function removeFolders(folders: CgroupFolders): boolean {
  return listFolders(folders).map(removeFolder).every(Boolean);
}

/**
 * Throws when a limit cannot be set. Memory with swap is never less than memory, so a growing limit is written in
 * reverse.
 */
function writeLimits(
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

/** A tree of control groups with this process in it. */
interface Hierarchy {
  readonly version: 1 | 2;
  /** The controllers of this tree; in version 2 the group itself lists them. */
  readonly controllers: readonly string[];
  /** The group of this process, as a folder. */
  readonly own: string;
}

interface CgroupMount {
  readonly version: 1 | 2;
  readonly root: string;
  readonly folder: string;
  readonly options: readonly string[];
}

const hasControllers = ({ options }: CgroupMount, controllers: readonly string[]): boolean =>
  controllers.every((name) => options.includes(name));

/** Control groups, by which the kernel enforces limits. */
export interface Cgroups {
  readonly version: 1 | 2;
  /** Whether processor time can be limited as well. */
  readonly boundsCpu: boolean;
  /** Creates a group for an owner whose processes have their private folders in `tmpRoot`. */
  create(tmpRoot: string): OwnerCgroup;
}

const leafName = 'ambit';

/** Finds groups below our own in version 1: limits on Ambit also hold for its servers. Undefined if impossible. */
export function findCgroupsV1(hierarchies: readonly Hierarchy[]): Cgroups | undefined {
  const bases = new Map<Controller, string>();
  for (const controller of ['memory', 'pids', 'cpu'] as const) {
    const tree = hierarchies.find(({ version, controllers }) => version === 1 && controllers.includes(controller));
    if (tree !== undefined) bases.set(controller, tree.own);
  }
  return tryCgroups(1, bases);
}

/**
 * Finds groups in version 2, where only a group without processes of its own can delegate controllers. If Ambit is
 * alone in its group, as a service with a delegated group is, it moves into a group below.
 */
export function findCgroupsV2(hierarchies: readonly Hierarchy[], ours: () => ReadonlySet<number>): Cgroups | undefined {
  const own = hierarchies.find(({ version }) => version === 2)?.own;
  if (own === undefined) return undefined;
  const base = [own, ...(basename(own) === leafName ? [dirname(own)] : [])].find((folder) =>
    delegatesControllers(folder),
  );
  const found = base ?? (moveIntoLeaf(own, ours()) ? own : undefined);
  if (found === undefined) return undefined;
  const active = readControllers(found, 'cgroup.subtree_control');
  return tryCgroups(
    2,
    new Map((['memory', 'pids', 'cpu'] as const).flatMap((name) => (active.has(name) ? [[name, found]] : []))),
  );
}

function delegatesControllers(folder: string): boolean {
  const active = readControllers(folder, 'cgroup.subtree_control');
  return active.has('memory') && active.has('pids');
}

function readControllers(folder: string, file: string): Set<string> {
  return new Set(readText(join(folder, file)).trim().split(' '));
}

function moveIntoLeaf(own: string, ours: ReadonlySet<number>): boolean {
  const available = readControllers(own, 'cgroup.controllers');
  const members = listCgroupMembers(own);
  if (!available.has('memory') || !available.has('pids') || members.some((pid) => !ours.has(pid))) return false;
  const below = join(own, leafName);
  const moveAll = (to: string) => {
    for (const pid of members) writeFileSync(join(to, 'cgroup.procs'), String(pid));
  };
  try {
    mkdirSync(below, { recursive: true });
    moveAll(below);
    const wanted = ['memory', 'pids', 'cpu'].filter((name) => available.has(name));
    writeFileSync(join(own, 'cgroup.subtree_control'), wanted.map((name) => `+${name}`).join(' '));
    return true;
  } catch {
    try {
      moveAll(own);
      rmdirSync(below);
    } catch {
      // If nothing was moved, nothing has to be moved back.
    }
    return false;
  }
}

/** Makes a group to see whether groups can be made and limited there. */
function tryCgroups(version: 1 | 2, bases: CgroupFolders): Cgroups | undefined {
  if (!bases.has('memory') || !bases.has('pids')) return undefined;
  const folders = cgroupFoldersIn(bases, `ambit-trial-${process.pid}`);
  const below = cgroupFoldersIn(folders, 'ambit-below');
  try {
    makeFolders(folders);
    writeLimits(version, folders, trialLimits, 0, false);
    makeFolders(below);
  } catch {
    return undefined;
  } finally {
    removeFolders(below);
    removeFolders(folders);
  }
  return { version, boundsCpu: bases.has('cpu'), create: (tmpRoot) => createOwnerCgroup(version, bases, tmpRoot) };
}

/** Parses `/proc/self/cgroup` and `/proc/self/mountinfo`. Hierarchies outside of the mounts are left out. */
export function parseHierarchies(groups: string, mounts: string): Hierarchy[] {
  const found: Hierarchy[] = [];
  for (const line of groups.split('\n')) {
    const [, names, path] = /^\d+:([^:]*):(\/.*)$/.exec(line) ?? [];
    if (names === undefined || path === undefined || path.startsWith('/..')) continue;
    const version = names === '' ? 2 : 1;
    const controllers = names.split(',').filter((name) => name !== '' && !name.startsWith('name='));
    if (version === 1 && controllers.length === 0) continue;
    const mount = parseMounts(mounts).find((each) => each.version === version && hasControllers(each, controllers));
    const inside = mount === undefined ? undefined : pathBelow(path, mount.root);
    if (mount === undefined || inside === undefined) continue;
    found.push({ version, controllers, own: `${mount.folder}${inside}`.replace(/(?<!\/)\/+$/, '') });
  }
  return found;
}

function parseMounts(text: string): CgroupMount[] {
  return text.split('\n').flatMap((line) => {
    const [before = '', after = ''] = line.split(' - ');
    const [, , , root, folder] = before.split(' ');
    const [type, , options = ''] = after.split(' ');
    if (root === undefined || folder === undefined || (type !== 'cgroup' && type !== 'cgroup2')) return [];
    return [
      {
        version: type === 'cgroup' ? 1 : 2,
        root: unescapePath(root),
        folder: unescapePath(folder),
        options: options.split(','),
      },
    ];
  });
}

/** The path below a mount. In a container the tree may be mounted from our own group downwards. */
function pathBelow(path: string, root: string): string | undefined {
  if (root === '/') return path;
  if (path === root) return '';
  return path.startsWith(`${root}/`) ? path.slice(root.length) : undefined;
}

/** The kernel writes blanks and similar characters as octal numbers. */
function unescapePath(path: string): string {
  return path.replace(/\\([0-7]{3})/g, (_, digits: string) => String.fromCharCode(Number.parseInt(digits, 8)));
}
