import type { AccessKind, Admit } from './check-access.ts';
import type { Handle, PlatformFs } from './platform/platform-fs.ts';
import { SafeRootError } from './saferoot-error.ts';
import { type EntryLocation, type PathWalkOptions, type WalkResult, walkPath } from './walk-path.ts';

/** An open folder, as the operations see it. */
export interface RootFolder {
  readonly fs: PlatformFs;
  readonly root: Handle;
  /** Files with several names are refused even for reading, and mounts are not entered. */
  readonly strict: boolean;
  readonly checkAccess: Admit | undefined;
  /** Asked before what lies in a folder is admitted: what to wait for, so that it is known what holds there. */
  readonly prepare?: ((names: readonly string[]) => Promise<void> | undefined) | undefined;
}

export interface RootWalkOptions extends Omit<PathWalkOptions, 'checkAccess'> {
  readonly access: AccessKind;
}

export function walkInRoot(folder: RootFolder, path: string, options: RootWalkOptions): WalkResult {
  return walkPath(folder.fs, folder.root, path, { ...options, checkAccess: folder.checkAccess });
}

/** Walks, does the work, and lets every handle go again. */
export function withPath<T>(
  folder: RootFolder,
  path: string,
  options: RootWalkOptions,
  work: (end: WalkResult) => T,
): T {
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
  options: RootWalkOptions,
  work: (end: WalkResult) => Promise<T>,
): Promise<T> {
  const end = walkInRoot(folder, path, options);
  try {
    return await work(end);
  } finally {
    end.release();
  }
}

/** What is there; it must be. */
export function requireNode(end: WalkResult): Handle {
  if (end.node === undefined) throw new SafeRootError('FILE_NOT_FOUND');
  return end.node;
}

/** The place of something that can be made, moved or removed: anything but the folder itself. */
export function requireLocation(end: WalkResult): EntryLocation {
  if (end.location === undefined) throw new SafeRootError('PATH_VIOLATION', { what: 'is the folder itself' });
  return end.location;
}

/** Refuses what is not a plain file, before anything is opened. */
export function assertRegularFile(handle: Handle, folder: RootFolder): void {
  if (handle.stats.isDirectory()) throw new SafeRootError('IS_A_DIRECTORY');
  if (!handle.stats.isFile()) throw new SafeRootError('SPECIAL_FILE');
  if (folder.strict && handle.stats.nlink > 1) {
    throw new SafeRootError('HARD_LINKED', { what: 'is a file with several names, which a strict folder refuses' });
  }
}

export function isSameFile(one: Handle, other: Handle): boolean {
  return one.stats.ino === other.stats.ino && one.stats.dev === other.stats.dev;
}
