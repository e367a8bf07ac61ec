import { mkdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { membersOf } from './cgroup-notes.ts';
import {
  type Controller,
  createGroup,
  type Folders,
  foldersIn,
  type Group,
  makeFolders,
  removeFolders,
  writeLimits,
} from './owner-cgroup.ts';

/** A tree of control groups that this process is in. */
interface Hierarchy {
  readonly version: 1 | 2;
  /** Those that hang in this tree; with version 2 the group itself says which there are. */
  readonly controllers: readonly string[];
  /** The group of this process, as a folder. */
  readonly own: string;
}

interface Mount {
  readonly version: 1 | 2;
  readonly root: string;
  readonly folder: string;
  readonly options: readonly string[];
}

const isOf = ({ options }: Mount, controllers: readonly string[]): boolean =>
  controllers.every((name) => options.includes(name));

/** Groups of processes that the kernel keeps within limits. */
export interface Groups {
  readonly version: 1 | 2;
  /** Whether processor time can be bounded as well. */
  readonly boundsCpu: boolean;
  /** A group for an owner whose processes have their private folders in this one. */
  create(tmpRoot: string): Group;
}

const leaf = 'ambit';

/** Below our own group in the trees of version 1: what bounds Ambit bounds its servers too. Undefined where it cannot be. */
export function groupsOfVersion1(hierarchies: readonly Hierarchy[]): Groups | undefined {
  const bases = new Map<Controller, string>();
  for (const controller of ['memory', 'pids', 'cpu'] as const) {
    const tree = hierarchies.find(({ version, controllers }) => version === 1 && controllers.includes(controller));
    if (tree !== undefined) bases.set(controller, tree.own);
  }
  return tried(1, bases);
}

/**
 * The same for version 2, where only a group without processes of its own can hand on controllers: Ambit moves into a
 * group below its own if it is alone there, as a service to which its group was delegated is.
 */
export function groupsOfVersion2(
  hierarchies: readonly Hierarchy[],
  ours: () => ReadonlySet<number>,
): Groups | undefined {
  const own = hierarchies.find(({ version }) => version === 2)?.own;
  if (own === undefined) return undefined;
  const base = [own, ...(basename(own) === leaf ? [dirname(own)] : [])].find((folder) => handsOn(folder));
  const found = base ?? (moveBelow(own, ours()) ? own : undefined);
  if (found === undefined) return undefined;
  const active = controllersIn(found, 'cgroup.subtree_control');
  return tried(
    2,
    new Map((['memory', 'pids', 'cpu'] as const).flatMap((name) => (active.has(name) ? [[name, found]] : []))),
  );
}

function handsOn(folder: string): boolean {
  const active = controllersIn(folder, 'cgroup.subtree_control');
  return active.has('memory') && active.has('pids');
}

function controllersIn(folder: string, file: string): Set<string> {
  try {
    return new Set(readFileSync(join(folder, file), 'latin1').trim().split(' '));
  } catch {
    return new Set();
  }
}

function moveBelow(own: string, ours: ReadonlySet<number>): boolean {
  const available = controllersIn(own, 'cgroup.controllers');
  const members = membersOf(own);
  if (!available.has('memory') || !available.has('pids') || members.some((pid) => !ours.has(pid))) return false;
  const below = join(own, leaf);
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
      // Where nothing could be moved, nothing need be moved back.
    }
    return false;
  }
}

/** Whether groups can really be made and bounded there is known once one has been. */
function tried(version: 1 | 2, bases: Folders): Groups | undefined {
  if (!bases.has('memory') || !bases.has('pids')) return undefined;
  const folders = foldersIn(bases, `ambit-trial-${process.pid}`);
  const below = foldersIn(folders, 'ambit-below');
  const limits = { memoryMb: 64, pids: 16, cpus: 1, fileMb: 1, openFiles: 1, wallSeconds: 1 };
  try {
    makeFolders(folders);
    writeLimits(version, folders, limits, 0, false);
    makeFolders(below);
  } catch {
    return undefined;
  } finally {
    removeFolders(below);
    removeFolders(folders);
  }
  return { version, boundsCpu: bases.has('cpu'), create: (tmpRoot) => createGroup(version, bases, tmpRoot) };
}

/** From `/proc/self/cgroup` and `/proc/self/mountinfo`; what is not mounted, or lies outside of what is, is left out. */
export function hierarchiesOf(groups: string, mounts: string): Hierarchy[] {
  const found: Hierarchy[] = [];
  for (const line of groups.split('\n')) {
    const [, names, path] = /^\d+:([^:]*):(\/.*)$/.exec(line) ?? [];
    if (names === undefined || path === undefined || path.startsWith('/..')) continue;
    const version = names === '' ? 2 : 1;
    const controllers = names.split(',').filter((name) => name !== '' && !name.startsWith('name='));
    if (version === 1 && controllers.length === 0) continue;
    const mount = mountsOf(mounts).find((each) => each.version === version && isOf(each, controllers));
    const inside = mount === undefined ? undefined : below(path, mount.root);
    if (mount === undefined || inside === undefined) continue;
    found.push({ version, controllers, own: `${mount.folder}${inside}`.replace(/(?<!\/)\/+$/, '') });
  }
  return found;
}

function mountsOf(text: string): Mount[] {
  return text.split('\n').flatMap((line) => {
    const [before = '', after = ''] = line.split(' - ');
    const [, , , root, folder] = before.split(' ');
    const [type, , options = ''] = after.split(' ');
    if (root === undefined || folder === undefined || (type !== 'cgroup' && type !== 'cgroup2')) return [];
    return [
      { version: type === 'cgroup' ? 1 : 2, root: plain(root), folder: plain(folder), options: options.split(',') },
    ];
  });
}

/** In a container the tree may be mounted from our own group on downwards, while groups are named from the top. */
function below(path: string, root: string): string | undefined {
  if (root === '/') return path;
  if (path === root) return '';
  return path.startsWith(`${root}/`) ? path.slice(root.length) : undefined;
}

/** The kernel writes blanks and their like as octal numbers. */
function plain(path: string): string {
  return path.replace(/\\([0-7]{3})/g, (_, digits: string) => String.fromCharCode(Number.parseInt(digits, 8)));
}
