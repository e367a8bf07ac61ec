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
import { at } from './platform/platform-fs.ts';
import { type Folder, isSame } from './root-folder.ts';
import { SafeRootError, systemCode } from './saferoot-error.ts';
import { type Place, type Walked, walkAlong } from './walk-path.ts';

/**
 * Where a file cannot get a second name: not on every file system, not of files of other accounts, and on macOS not
 * when it is a link.
 */
const cannotLink: ReadonlySet<string> = new Set(['EPERM', 'ENOTSUP', 'EOPNOTSUPP', 'ENOSYS', 'EMLINK', 'ELOOP']);

/**
 * What was admitted is a way of names. The folder at its end may have been moved to where its file would not be admitted:
 * it must still be there. Before a new name is given, that spares the work. After it, it is what counts: another process
 * may have come in between, and whoever comes last sees what both did.
 */
export function assertPlace(folder: Folder, end: Walked, place: Place): void {
  if (folder.admit === undefined) return;
  const above = end.inside.slice(0, -1);
  const now = walkAlong(folder.ground, folder.root, above, { keepLastLink: true });
  now.release();
  if (now.node === undefined || !isSame(now.node, place.folder)) throw new SafeRootError('CHANGED');
  // The other parts of a repository may have come meanwhile.
  assertNoRepository(folder.admit, place.folder, above, place.name);
}

/** Looks at what was done, and undoes it where a rule is broken by it now. */
export function orUndone(look: () => void, undo: () => void): void {
  try {
    look();
  } catch (error) {
    undo();
    throw error;
  }
}

/** Takes a new name away, unless it is somebody else's by now. */
export function removeOwn({ folder, name }: Place, own: Stats): void {
  const path = at(folder, name);
  const now = lstatSync(path, { throwIfNoEntry: false });
  if (now !== undefined && now.ino === own.ino && now.dev === own.dev) unlinkSync(path);
}

/**
 * Gives a file a new name that nobody has, or fails with EEXIST. A plain rename would replace what is there, and
 * looking first would leave a gap; a link fails if the name is taken, at once.
 */
export function takeFileName(from: string, to: string): void {
  try {
    linkSync(from, to);
  } catch (error) {
    if (!cannotLink.has(systemCode(error) ?? '')) throw error;
    // The name is taken by an empty file of ours, which the real one then replaces.
    closeSync(openSync(to, constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW, 0o600));
    moveOver(from, to, unlinkSync);
    return;
  }
  removeOldName(from, to);
}

/** The same for a folder: its name is taken by an empty folder, which a rename replaces at once. */
export function takeFolderName(from: string, to: string): void {
  mkdirSync(to, 0o700);
  moveOver(from, to, rmdirSync);
}

function moveOver(from: string, to: string, giveUp: (path: string) => void): void {
  try {
    renameSync(from, to);
  } catch (error) {
    giveUp(to);
    throw error;
  }
}

/** Only while it is still the same file: someone may have put another one there since. */
function removeOldName(from: string, to: string): void {
  const [old, fresh] = [from, to].map((path) => lstatSync(path, { throwIfNoEntry: false }));
  if (old === undefined || (fresh !== undefined && (fresh.ino !== old.ino || fresh.dev !== old.dev))) return;
  try {
    unlinkSync(from);
  } catch (error) {
    if (systemCode(error) === 'ENOENT') return;
    unlinkSync(to);
    throw error;
  }
}
