import type { AccessKind, CheckAccess } from './check-access.ts';
import type { Handle, PlatformFs } from './platform/platform-fs.ts';
import { SafeRootError } from './saferoot-error.ts';
import { type EntryLocation, type WalkOptions, type WalkResult, walkPath } from './walk-path.ts';

export interface RootFolder {
  readonly fs: PlatformFs;
  readonly root: Handle;
  /** Refuses files with several names even for reading, and does not enter other mounts. */
  readonly strict: boolean;
  readonly checkAccess: CheckAccess | undefined;
  /** Called before entries of a folder are checked. Returns what to wait for, so that the check knows all its rules. */
  readonly prepare?: ((names: readonly string[]) => Promise<void> | undefined) | undefined;
}

export interface RootWalk extends Omit<WalkOptions, 'checkAccess'> {
  readonly access: AccessKind;
}

export function walkInRoot(folder: RootFolder, path: string, options: RootWalk): WalkResult {
  return walkPath(folder.fs, folder.root, path, { ...options, checkAccess: folder.checkAccess });
}

/** Walks to a path, does the work and releases every handle. */
export function withPath<T>(folder: RootFolder, path: string, options: RootWalk, work: (end: WalkResult) => T): T {
  const end = walkInRoot(folder, path, options);
  try {
    return work(end);
  } finally {
    end.release();
  }
}

export async function withPathAsync<T>(
  folder: RootFolder,
  path: string,
  options: RootWalk,
  work: (end: WalkResult) => Promise<T>,
): Promise<T> {
  const end = walkInRoot(folder, path, options);
  try {
    return await work(end);
  } finally {
    end.release();
  }
}

/** Returns the entry that the walk found, or throws when there is none. */
export function requireNode(end: WalkResult): Handle {
  if (end.node === undefined) throw new SafeRootError('FILE_NOT_FOUND');
  return end.node;
}

/** Returns the location of an entry that can be made, moved or removed: any but the root itself. */
export function requireLocation(end: WalkResult): EntryLocation {
  if (end.location === undefined) throw new SafeRootError('PATH_VIOLATION', { what: 'is the folder itself' });
  return end.location;
}

/** Refuses everything but regular files, before anything is opened. */
export function assertRegularFile(handle: Handle, folder: RootFolder): void {
  if (handle.stats.isDirectory()) throw new SafeRootError('IS_A_DIRECTORY');
  if (!handle.stats.isFile()) throw new SafeRootError('SPECIAL_FILE');
  if (folder.strict && handle.stats.nlink > 1) throw new SafeRootError('HARD_LINKED');
}

export function isSameFile(one: Handle, other: Handle): boolean {
  return one.stats.ino === other.stats.ino && one.stats.dev === other.stats.dev;
}
