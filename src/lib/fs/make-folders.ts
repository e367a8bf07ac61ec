import { existsSync, mkdirSync, statSync } from 'node:fs';
import { dirname } from 'node:path';

/**
 * Makes a private folder and those above it. The recursive mode of `mkdir` never ends where a parent exists but takes no
 * entries, as /proc.
 */
export function makeFolders(path: string): void {
  try {
    mkdirSync(path, { mode: 0o700 });
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException;
    if (isFolder(path)) return;
    const above = dirname(path);
    if (code !== 'ENOENT' || above === path || existsSync(above)) throw cause;
    makeFolders(above);
    makeFolders(path);
  }
}

function isFolder(path: string): boolean {
  try {
    return statSync(path).isDirectory();
  } catch {
    return false;
  }
}

/** The errors of the file system: their meaning, and what a person can do about them. */
const fileErrors: Readonly<Record<string, readonly [meaning: string, remedy: string]>> = {
  EACCES: ['access is denied', 'Check the owner and mode of it and of the folders above, or choose another place.'],
  EPERM: ['access is denied', 'Check the owner and mode of it and of the folders above, or choose another place.'],
  EROFS: ['the file system is read-only', 'Choose a place on another file system.'],
  ENOSPC: ['the disk is full', 'Free some space, or choose a place on another disk.'],
  EDQUOT: ['the disk quota is used up', 'Free some space, or choose a place on another disk.'],
  ENAMETOOLONG: ['the name is too long', 'Choose a shorter path.'],
  ELOOP: ['its symbolic links form a loop', 'Correct the links, or choose another place.'],
  ENOENT: ['nothing can be created there', 'Choose another place.'],
  ENOTDIR: ['a part of the path is not a folder', 'Choose another place.'],
  EEXIST: ['something else with this name exists', 'Remove it, or choose another place.'],
  EMFILE: ['too many files are open', 'Raise the limit with "ulimit -n".'],
};

interface FileError {
  readonly meaning: string;
  readonly remedy: string;
  /** The path, where the system names it. */
  readonly path: string | undefined;
}

/** Describes an error of the file system; undefined for any other error. */
export function describeFileError(error: unknown): FileError | undefined {
  const { code = '', syscall, path } = error as NodeJS.ErrnoException;
  const known = fileErrors[code];
  if (syscall === undefined || known === undefined) return undefined;
  return { meaning: `${known[0]} (${code})`, remedy: known[1], path };
}
