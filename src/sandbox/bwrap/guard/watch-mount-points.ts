import type { Stats } from 'node:fs';
import { basename, join } from 'node:path';
import { protectedNames, protectedPaths } from '../../../lib/fs/protected-paths.ts';
import type { Bounds } from '../../limits/limiter.ts';
import { findProtectedNames, statIfReadable } from './find-protected-names.ts';

/** A folder in which protected names may appear. */
export interface WatchedFolder {
  readonly path: string;
  /** Protected names that existed from the start, as names and as paths. */
  readonly present: ReadonlySet<string>;
  /** Whether a name may be written. */
  readonly isWriteAllowed: (names: readonly string[]) => boolean;
}

interface NameWatchOptions {
  readonly list?: typeof findProtectedNames;
  readonly now?: () => number;
}

/** Names that can be checked one by one. */
const plainNames = [...protectedNames, ...protectedPaths].filter((name) => !name.includes('*'));

/** Limits the share of time that listing large folders may take. */
const shareOfTime = 50;

/** The identity of a mount point on the host. */
export interface MountMark {
  readonly path: string;
  readonly mark: string;
}

export interface WatchedPaths {
  readonly mountPoints: readonly MountMark[];
  readonly folders: readonly WatchedFolder[];
}

export function markMountPoint(path: string, stats: Stats): MountMark {
  return { path, mark: identifyFile(stats) };
}

/**
 * Ends a process whose protection has been lost. When somebody outside replaces a file, as git and many editors do, the
 * kernel removes the mount on it, and the new file is writable inside. A new file is not protected at all. The next
 * process gets new mounts.
 */
export function withMountChecks(bounds: Bounds, { mountPoints, folders }: WatchedPaths): Bounds {
  const watches = folders.map((folder) => watchNewNames(folder));
  return {
    ...bounds,
    check: (pid, processes) =>
      bounds.check(pid, processes) ?? findReplacedMountPoint(mountPoints) ?? findNewName(watches),
  };
}

function findNewName(watches: readonly (() => string | undefined)[]): string | undefined {
  for (const watch of watches) {
    const name = watch();
    if (name === undefined) continue;
    return `"${name}", which is read-only for sandboxed servers, was created in the folder; check who created it, or allow it in workspaces.*.files.open`;
  }
  return undefined;
}

function findReplacedMountPoint(mountPoints: readonly MountMark[]): string | undefined {
  const gone = mountPoints.find(({ path, mark }) => {
    const now = statIfReadable(path);
    return now === undefined || identifyFile(now) !== mark;
  });
  if (gone === undefined) return undefined;
  return `"${basename(gone.path)}", which is read-only for it, was replaced; it starts again with the next call`;
}

/** The birth time is included, since a new file may get the inode number of an old one. */
const identifyFile = ({ dev, ino, birthtimeMs }: Stats): string => `${dev}:${ino}:${birthtimeMs}`;

/**
 * Returns a function that reports a new protected name in a folder. Plain names are checked on each call. Patterns,
 * other spellings and repositories need a listing of the folder. It is made in the background, and the next one waits
 * in proportion to its duration.
 */
export function watchNewNames(
  { path, present, isWriteAllowed }: WatchedFolder,
  { list = findProtectedNames, now = () => performance.now() }: NameWatchOptions = {},
): () => string | undefined {
  let found: string | undefined;
  let isListing = false;
  let notBefore = 0;

  async function listNames(): Promise<void> {
    const began = now();
    const listed = await list(path);
    found = listed.find(({ name, ruleNames }) => !present.has(name) && !isWriteAllowed(ruleNames))?.name;
    notBefore = now() + (now() - began) * shareOfTime;
    isListing = false;
  }

  return () => {
    found ??= plainNames.find(
      (name) =>
        !present.has(name) && statIfReadable(join(path, name)) !== undefined && !isWriteAllowed(name.split('/')),
    );
    if (found === undefined && !isListing && now() >= notBefore) {
      isListing = true;
      void listNames();
    }
    return found;
  };
}
