import { lstatSync, readdirSync, type Stats } from 'node:fs';
import { basename, join } from 'node:path';
import { guardedPaths, isGuardedName } from '../../guarded-names.ts';
import type { Bounds } from '../limits/limiter.ts';
import type { Pinned } from './pinned.ts';

/** A name outside upon which something is mounted in a sandbox. */
export interface GuardSpot {
  readonly path: string;
  readonly mark: string;
}

/** A folder in which names that are guarded may come to be. */
export interface GuardedFolder {
  readonly path: string;
  /** Guarded names that were there from the start, as names and as paths. */
  readonly present: ReadonlySet<string>;
  /** Those that may be written. */
  readonly isFree: (names: readonly string[]) => boolean;
}

export interface Watched {
  readonly spots: readonly GuardSpot[];
  readonly folders: readonly GuardedFolder[];
}

export function spotOf({ real, stats }: Pick<Pinned, 'real' | 'stats'>): GuardSpot {
  return { path: real, mark: markOf(stats) };
}

/**
 * When somebody outside replaces a file, as git and many editors do, the kernel takes away what was mounted upon it, and
 * the new file can be written inside. What is new has no guard at all, whoever made it. So a process whose guards are not
 * as they should be is ended; the next one gets new ones.
 */
export function boundsWithGuards(bounds: Bounds, { spots, folders }: Watched): Bounds {
  return {
    ...bounds,
    check: (pid, processes) => bounds.check(pid, processes) ?? replacedGuard(spots) ?? newName(folders),
  };
}

/** More folders than this are not looked into. */
const mostFolders = 500;

/** Something in a folder that is guarded. */
export interface GuardedName {
  readonly name: string;
  /** The names by which it is judged whether it may be written: the parts of a repository as if they lay in `.git`. */
  readonly judged: readonly string[];
}

/** Guarded names at the top of a folder, repositories in the folders there, and the folder as one, as they are now. */
export function guardedIn(folder: string): GuardedName[] {
  const has = (path: string) => lookAt(join(folder, path)) !== undefined;
  try {
    const entries = readdirSync(folder, { withFileTypes: true });
    const folders = entries.filter((entry) => entry.isDirectory() && entry.name !== '.git').slice(0, mostFolders);
    const names = [
      ...entries.map(({ name }) => name).filter(isGuardedName),
      ...guardedPaths.filter(has),
      ...folders.map(({ name }) => `${name}/.git`).filter(has),
    ];
    const repositories = [[], ...folders.map(({ name }) => [name])].filter((above) => isRepository(above, has));
    return [
      ...names.map((name) => ({ name, judged: name.split('/') })),
      ...repositories.map((above) => ({ name: [...above, 'HEAD'].join('/'), judged: [...above, '.git', 'HEAD'] })),
    ];
  } catch {
    return [];
  }
}

/** Git takes a folder for a repository by what it holds, whatever it is called. */
export function isRepository(above: readonly string[], has: (path: string) => boolean): boolean {
  const holds = (name: string) => has([...above, name].join('/'));
  return holds('HEAD') && (holds('commondir') || (holds('objects') && holds('refs')));
}

function newName(folders: readonly GuardedFolder[]): string | undefined {
  for (const { path, present, isFree } of folders) {
    const found = guardedIn(path).find(({ name, judged }) => !present.has(name) && !isFree(judged));
    if (found === undefined) continue;
    return `"${found.name}", which servers in a sandbox may only read, is new in the folder; look who made it, or open it in workspaces.*.files.open`;
  }
  return undefined;
}

function replacedGuard(spots: readonly GuardSpot[]): string | undefined {
  const gone = spots.find(({ path, mark }) => {
    const now = lookAt(path);
    return now === undefined || markOf(now) !== mark;
  });
  if (gone === undefined) return undefined;
  return `"${basename(gone.path)}", which it may only read, was replaced; it starts anew with the next call`;
}

/** The number of a file may be given to the next one. */
const markOf = ({ dev, ino, birthtimeMs }: Stats): string => `${dev}:${ino}:${birthtimeMs}`;

function lookAt(path: string): Stats | undefined {
  try {
    return lstatSync(path, { throwIfNoEntry: false });
  } catch {
    return undefined;
  }
}
