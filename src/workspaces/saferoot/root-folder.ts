import type { Admit, Deed } from './check-access.ts';
import type { Ground, Handle } from './platform/platform-fs.ts';
import { SafeRootError } from './saferoot-error.ts';
import { type Place, type Walked, type WalkOptions, walk } from './walk-path.ts';

/** An open folder, as the operations see it. */
export interface Folder {
  readonly ground: Ground;
  readonly root: Handle;
  /** Files with several names are refused even for reading, and mounts are not entered. */
  readonly strict: boolean;
  readonly admit: Admit | undefined;
  /** Asked before what lies in a folder is admitted: what to wait for, so that it is known what holds there. */
  readonly prepare?: ((inside: readonly string[]) => Promise<void> | undefined) | undefined;
}

export interface FolderWalk extends Omit<WalkOptions, 'admit'> {
  readonly deed: Deed;
}

export function walkIn(folder: Folder, path: string, options: FolderWalk): Walked {
  return walk(folder.ground, folder.root, path, { ...options, admit: folder.admit });
}

/** Walks, does the work, and lets every handle go again. */
export function walked<T>(folder: Folder, path: string, options: FolderWalk, work: (end: Walked) => T): T {
  const end = walkIn(folder, path, options);
  try {
    return work(end);
  } finally {
    end.release();
  }
}

export async function walkedUntil<T>(
  folder: Folder,
  path: string,
  options: FolderWalk,
  work: (end: Walked) => Promise<T>,
): Promise<T> {
  const end = walkIn(folder, path, options);
  try {
    return await work(end);
  } finally {
    end.release();
  }
}

/** What is there; it must be. */
export function found(end: Walked): Handle {
  if (end.node === undefined) throw new SafeRootError('FILE_NOT_FOUND');
  return end.node;
}

/** The place of something that can be made, moved or removed: anything but the folder itself. */
export function placeOf(end: Walked): Place {
  if (end.place === undefined) throw new SafeRootError('PATH_VIOLATION', { what: 'is the folder itself' });
  return end.place;
}

/** Refuses what is not a plain file, before anything is opened. */
export function assertFile(handle: Handle, folder: Folder): void {
  if (handle.stats.isDirectory()) throw new SafeRootError('IS_A_DIRECTORY');
  if (!handle.stats.isFile()) throw new SafeRootError('SPECIAL_FILE');
  if (folder.strict && handle.stats.nlink > 1) {
    throw new SafeRootError('HARD_LINKED', { what: 'is a file with several names, which a strict folder refuses' });
  }
}

export function isSame(one: Handle, other: Handle): boolean {
  return one.stats.ino === other.stats.ino && one.stats.dev === other.stats.dev;
}
