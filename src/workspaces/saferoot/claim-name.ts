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
import { isSameFile, type RootFolder } from './root-folder.ts';
import { SafeRootError, systemCode } from './saferoot-error.ts';
import { type EntryLocation, type WalkResult, walkNames } from './walk-path.ts';

/**
 * Where a file cannot get a second name: not on every file system, not of files of other accounts, and on macOS not
 * when it is a link.
 */
const linkUnsupportedCodes: ReadonlySet<string> = new Set([
  'EPERM',
  'ENOTSUP',
  'EOPNOTSUPP',
  'ENOSYS',
  'EMLINK',
  'ELOOP',
]);

/**
 * What was admitted is a way of names. The folder at its end may have been moved to where its file would not be admitted:
 * it must still be there. Before a new name is given, that spares the work. After it, it is what counts: another process
 * may have come in between, and whoever comes last sees what both did.
 */
export function assertParentUnmoved(folder: RootFolder, end: WalkResult, location: EntryLocation): void {
  if (folder.checkAccess === undefined) return;
  const parentNames = end.names.slice(0, -1);
  const now = walkNames(folder.fs, folder.root, parentNames, { keepLastLink: true });
  now.release();
  if (now.node === undefined || !isSameFile(now.node, location.folder)) throw new SafeRootError('CHANGED');
  // The other parts of a repository may have come meanwhile.
  assertNoRepository(folder.checkAccess, location.folder, parentNames, location.name);
}

/** Looks at what was done, and undoes it where a rule is broken by it now. */
export function undoOnError(check: () => void, undo: () => void): void {
  try {
    check();
  } catch (error) {
    undo();
    throw error;
  }
}

/** Takes a new name away, unless it is somebody else's by now. */
export function removeIfOurs({ folder, name }: EntryLocation, ours: Stats): void {
  const path = pathAt(folder, name);
  const current = lstatSync(path, { throwIfNoEntry: false });
  if (current !== undefined && current.ino === ours.ino && current.dev === ours.dev) unlinkSync(path);
}

/**
 * Gives a file a new name that nobody has, or fails with EEXIST. A plain rename would replace what is there, and
 * looking first would leave a gap; a link fails if the name is taken, at once.
 */
export function claimFileName(from: string, to: string): void {
  try {
    linkSync(from, to);
  } catch (error) {
    if (!linkUnsupportedCodes.has(systemCode(error) ?? '')) throw error;
    // The name is taken by an empty file of ours, which the real one then replaces.
    closeSync(openSync(to, constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW, 0o600));
    renameOverClaim(from, to, unlinkSync);
    return;
  }
  removeOldName(from, to);
}

/** The same for a folder: its name is taken by an empty folder, which a rename replaces at once. */
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

/** Only while it is still the same file: someone may have put another one there since. */
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
