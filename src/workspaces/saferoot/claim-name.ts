import {
  closeSync,
  constants,
  linkSync,
  lstatSync,
  mkdirSync,
  openSync,
  renameSync,
  rmdirSync,
  type Stats,
  unlinkSync,
} from 'node:fs';
import { assertNoRepository } from './assert-no-repository.ts';
import { pathAt } from './platform/platform-fs.ts';
import { SafeRootError, systemCode } from './saferoot-error.ts';
import { type EntryLocation, isSameFile, type RootFolder, type WalkResult, walkNames } from './walk-path.ts';

/**
 * System codes for a file that cannot get a second name: not every file system allows it, not for files of other
 * accounts, and on macOS not for links.
 */
const unlinkableCodes: ReadonlySet<string> = new Set(['EPERM', 'ENOTSUP', 'EOPNOTSUPP', 'ENOSYS', 'EMLINK', 'ELOOP']);

/**
 * Asserts that the parent folder still lies where access was checked: it may have been moved to where its file would be
 * refused. Before a new name is given, this check saves work. After it, this check is the one that counts: another
 * process may have changed something in between, and the later of the two sees both changes.
 */
export function assertParentUnmoved(folder: RootFolder, end: WalkResult, location: EntryLocation): void {
  if (folder.checkAccess === undefined) return;
  const parentNames = end.names.slice(0, -1);
  const now = walkNames(folder.fs, folder.root, parentNames, { keepLastLink: true });
  now.release();
  if (now.node === undefined || !isSameFile(now.node, location.folder)) throw new SafeRootError('CHANGED');
  // Another process may have added the other parts of a repository.
  assertNoRepository(folder.checkAccess, location.folder, parentNames, location.name);
}

/** Checks what was done, and undoes it when the check fails. */
export function undoOnError(check: () => void, undo: () => void): void {
  try {
    check();
  } catch (error) {
    undo();
    throw error;
  }
}

/** Removes a name that we gave, unless another file has it by now. */
export function removeIfOurs({ folder, name }: EntryLocation, ours: Stats): void {
  const path = pathAt(folder, name);
  const current = lstatSync(path, { throwIfNoEntry: false });
  if (current !== undefined && current.ino === ours.ino && current.dev === ours.dev) unlinkSync(path);
}

/**
 * Gives a file a name that is free, or fails with EEXIST. A plain rename would replace what is there, and checking
 * first would leave a gap. A hard link fails at once if the name is taken.
 */
export function claimFileName(from: string, to: string): void {
  try {
    linkSync(from, to);
  } catch (error) {
    if (!unlinkableCodes.has(systemCode(error) ?? '')) throw error;
    // Our empty file claims the name, and the real file then replaces it.
    closeSync(openSync(to, constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW, 0o600));
    renameOverClaim(from, to, unlinkSync);
    return;
  }
  removeOldName(from, to);
}

/** Does the same for a folder: an empty folder claims the name, and the rename replaces it at once. */
export function claimFolderName(from: string, to: string): void {
  mkdirSync(to, 0o700);
  renameOverClaim(from, to, rmdirSync);
}

function renameOverClaim(from: string, to: string, removeClaim: (path: string) => void): void {
  try {
    renameSync(from, to);
  } catch (error) {
    removeClaim(to);
    throw error;
  }
}

/** Removes the old name only while it is the same file: somebody may have put another one there. */
function removeOldName(from: string, to: string): void {
  const [old, current] = [from, to].map((path) => lstatSync(path, { throwIfNoEntry: false }));
  if (old === undefined || (current !== undefined && (current.ino !== old.ino || current.dev !== old.dev))) return;
  try {
    unlinkSync(from);
  } catch (error) {
    if (systemCode(error) === 'ENOENT') return;
    unlinkSync(to);
    throw error;
  }
}
