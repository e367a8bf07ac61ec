import { mkdirSync, rmdirSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { readText } from '../../lib/fs/if-present.ts';
import { listCgroupMembers } from './cgroup-notes.ts';
import { trialLimits } from './limits.ts';
import {
  type CgroupFolders,
  type Controller,
  cgroupFoldersIn,
  createOwnerCgroup,
  makeFolders,
  type OwnerCgroup,
  removeFolders,
  writeLimits,
} from './owner-cgroup.ts';

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
