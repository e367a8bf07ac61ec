import {
  closeSync,
  constants,
  linkSync,
  lstatSync,
  mkdirSync,
  openSync,
  renameSync,
  rmdirSync,
  unlinkSync,
} from 'node:fs';
import { systemCode } from './saferoot-error.ts';

/**
 * Where a file cannot get a second name: not on every file system, not of files of other accounts, and on macOS not
 * when it is a link.
 */
const cannotLink: ReadonlySet<string> = new Set(['EPERM', 'ENOTSUP', 'EOPNOTSUPP', 'ENOSYS', 'EMLINK', 'ELOOP']);

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
