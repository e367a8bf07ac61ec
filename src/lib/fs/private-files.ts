import {
  accessSync,
  chmodSync,
  closeSync,
  constants,
  existsSync,
  fchmodSync,
  fstatSync,
  lstatSync,
  openSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  type Stats,
  statSync,
} from 'node:fs';
import { userInfo } from 'node:os';
import { dirname, isAbsolute, join, parse, sep } from 'node:path';
import { AmbitError, isAmbitError } from '../../errors.ts';
import { escapeControls } from '../text/escape-controls.ts';
import { withLock } from './file-lock.ts';
import { describeFileError, makeFolders } from './make-folders.ts';
import { writeAtomically } from './write-atomically.ts';

const otherUsersMask = 0o077;
const otherWritersMask = 0o022;
const sticky = 0o1000;
/** Names that show that Ambit has used the folder before. */
const ownFileNames = ['journal', 'sessions.db', 'approvals.json'];

/**
 * Creates or takes over the data directory, and closes it and its folders to other users. A folder that holds other
 * things is refused, since others may need them.
 */
export function claimDataDir(path: string): void {
  try {
    claimFolder(path);
  } catch (cause) {
    throw isAmbitError(cause) ? cause : unusableError(path, cause);
  }
}

function claimFolder(path: string): void {
  assertCannotBeReplaced(path);
  makeFolder(path);
  const { mode } = statOwned(path);
  if ((mode & sticky) !== 0) throw notPrivateError(path, 'it is shared by all users');
  const names = readdirSync(path);
  const isOurs = names.length === 0 || ownFileNames.some((mark) => names.includes(mark));
  if (isOpenToOthers(mode) && !isOurs)
    throw notPrivateError(path, 'other users can open it, and it contains files that do not belong to Ambit');
  closeFolder(path);
  for (const name of names) {
    // Entries may disappear meanwhile.
    if (statSync(join(path, name), { throwIfNoEntry: false })?.isDirectory()) closeFolder(join(path, name));
  }
  accessSync(path, constants.R_OK | constants.W_OK | constants.X_OK);
}

/** Creates a folder that only this user can open. One that others could have filled is refused. */
export function makePrivateFolder(path: string): void {
  makeFolder(path);
  closeFolder(path);
}

/** Closes a file to others, if it exists. A file of another user is refused. */
export function makeFilePrivate(file: string): void {
  try {
    if (!isOpenToOthers(statOwned(file).mode)) return;
    chmodSync(file, 0o600);
    if (isOpenToOthers(statSync(file).mode))
      throw notPrivateError(file, 'its mode cannot be changed on this file system');
  } catch (cause) {
    // Another process may remove it meanwhile.
    if ((cause as NodeJS.ErrnoException).code === 'ENOENT') return;
    throw isAmbitError(cause) ? cause : notPrivateError(file, 'its mode cannot be changed', cause);
  }
}

/** Says why a folder cannot be made private; undefined if it can. */
export function findPrivacyObstacle(path: string): string | undefined {
  try {
    assertCannotBeReplaced(path);
    if (!existsSync(path)) return undefined;
    const { mode } = statOwned(path);
    return (mode & sticky) === 0 ? undefined : 'it is shared by all users';
  } catch (error) {
    const described = describeFileError(error);
    return described === undefined ? (error as Error).message : `${path} cannot be used: ${described.meaning}`;
  }
}

function makeFolder(path: string): void {
  try {
    makeFolders(path);
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException;
    if (code !== 'EEXIST' && code !== 'ENOTDIR') throw unusableError(path, cause);
    const isLink = lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink() === true;
    throw unusableError(path, cause, isLink ? 'it is a broken symbolic link' : 'it is not a folder');
  }
}

function closeFolder(path: string): void {
  statOwned(path);
  const descriptor = openSync(path, constants.O_RDONLY | constants.O_DIRECTORY);
  try {
    const { mode } = fstatSync(descriptor);
    if (!isOpenToOthers(mode)) return;
    try {
      fchmodSync(descriptor, 0o700);
    } catch (cause) {
      throw notPrivateError(path, 'its mode cannot be changed', cause);
    }
    if (isOpenToOthers(fstatSync(descriptor).mode)) {
      throw notPrivateError(path, 'its mode cannot be changed on this file system');
    }
    // Checked now that nobody else can add anything.
    if ((mode & otherWritersMask) === 0 || readdirSync(path).length === 0) return;
    fchmodSync(descriptor, mode & 0o7777);
    throw notPrivateError(path, 'other users can write to it, so they may have changed its content');
  } finally {
    closeSync(descriptor);
  }
}

/** Stats the target of a path. The target must be ours, and a link must be ours or root's. */
function statOwned(path: string): { readonly mode: number } {
  const { uid } = lstatSync(path);
  const stats = statSync(path);
  const isOurs = (uid === 0 || isOwnUser(uid)) && isOwnUser(stats.uid);
  if (!isOurs) throw notPrivateError(path, 'it belongs to another user');
  assertCannotBeReplaced(path);
  return stats;
}

/** Throws if another user could rename a folder above the path and so replace it. */
function assertCannotBeReplaced(path: string): void {
  const exposed = findExposureAbove(path);
  if (exposed === undefined) return;
  throw new AmbitError('CONFIG_INVALID', {
    what: `${path} could be replaced by another user: ${exposed}.`,
    hint: 'Choose a folder with --data-dir whose parent folders all belong to you or to root, or correct them with "chown" and "chmod go-w".',
  });
}

function isOwnUser(uid: number): boolean {
  return process.getuid === undefined || uid === process.getuid();
}

/** On Windows, modes do not separate users, so nothing counts as open. */
function isOpenToOthers(mode: number): boolean {
  return process.platform !== 'win32' && (mode & otherUsersMask) !== 0;
}

function notPrivateError(path: string, why: string, cause?: unknown): AmbitError {
  return new AmbitError('CONFIG_INVALID', {
    what: `${path} cannot be kept private: ${why}.`,
    hint: 'Choose a folder of your own with --data-dir, or check its owner and content, then correct it with "chown" and "chmod 700".',
    cause,
  });
}

function unusableError(path: string, cause: unknown, reason?: string): AmbitError {
  const { meaning, path: at = path } = describeFileError(cause) ?? { meaning: (cause as Error).message };
  return new AmbitError('CONFIG_INVALID', {
    what: `${path} cannot be used: ${reason ?? `${at === path ? '' : `${at}: `}${meaning}`}.`,
    hint: 'Choose a folder of your own with --data-dir DIR or AMBIT_DATA_DIR.',
    cause,
  });
}

/** Reads the secret in a file that only its owner can read, and creates it on first use. */
export async function loadOrCreateSecret(file: string, make: () => string): Promise<string> {
  return readSecret(file) ?? (await withLock(file, () => readSecret(file) ?? writeSecret(file, make())));
}

function writeSecret(file: string, secret: string): string {
  writeAtomically(file, `${secret}\n`);
  return secret;
}

/** Reads a secret. Undefined if there is no such file. Throws if others can read it. */
export function readSecret(file: string): string | undefined {
  const stat = lstatSync(file, { throwIfNoEntry: false });
  if (stat === undefined) return undefined;
  if (!stat.isFile() || isOpenToOthers(stat.mode)) {
    throw new AmbitError('CONFIG_INVALID', {
      what: `The file ${file} contains a secret, but other users can read it, or it is not a regular file.`,
      hint: `Remove it, or run "chmod 600" on it if nobody else has read it.`,
    });
  }
  const secret = readFileSync(file, 'utf8').trim();
  if (secret.length >= 24) return secret;
  throw new AmbitError('CONFIG_INVALID', {
    what: `The secret in ${file} is shorter than 24 characters.`,
    hint: 'Remove the file to create a new secret.',
  });
}

const maxLinks = 40;
const byGroup = 0o020;
const byAll = 0o002;

/**
 * Says why another user could change the file that a path leads to; undefined if only this user and root can. Checks
 * every folder on the path, every link, and the target. Parts that do not exist yet are not checked.
 */
export function findExposure(path: string): string | undefined {
  return findExposureOnPath(path, true);
}

/** Does the same without the last component: says why another user could replace it. */
export function findExposureAbove(path: string): string | undefined {
  return findExposureOnPath(path, false);
}

/**
 * Walks down from the root, as the system does. Nobody else can change a folder that has passed, nor rename its
 * entries, so nothing changes between this check and the use of the path.
 */
function findExposureOnPath(path: string, withLast: boolean): string | undefined {
  if (process.getuid === undefined) return undefined;
  const absolute = isAbsolute(path) ? path : `${process.cwd()}${sep}${path}`;
  const { root } = parse(absolute);
  let real = root;
  let rest = splitNames(absolute.slice(root.length));
  let links = 0;
  const wrong = rest.length > 0 || withLast ? describeExposure(root, lstatSync(root)) : undefined;
  if (wrong !== undefined) return wrong;
  while (rest.length > 0) {
    const [name, ...after] = rest as [string, ...string[]];
    rest = after;
    const current = name === '..' ? dirname(real) : join(real, name);
    const stats = lstatIfVisible(current);
    // The caller gets the same error when it uses the path.
    if (stats === undefined) return undefined;
    const isLink = stats.isSymbolicLink();
    const exposed = isLink || after.length > 0 || withLast ? describeExposure(current, stats) : undefined;
    if (exposed !== undefined) return exposed;
    if (!isLink) {
      real = current;
      continue;
    }
    links += 1;
    if (links > maxLinks) return undefined;
    const target = readlinkSync(current);
    if (isAbsolute(target)) real = root;
    rest = [...splitNames(target), ...after];
  }
  return undefined;
}

const splitNames = (path: string): string[] => path.split(sep).filter((name) => name !== '' && name !== '.');
const invisibleCodes = new Set(['ENOENT', 'ENOTDIR', 'EACCES']);

function lstatIfVisible(path: string): Stats | undefined {
  try {
    return lstatSync(path);
  } catch (cause) {
    if (invisibleCodes.has((cause as NodeJS.ErrnoException).code ?? '')) return undefined;
    throw cause;
  }
}

function describeExposure(path: string, stats: Stats): string | undefined {
  const escapedPath = escapeControls(path);
  if (!isTrustedOwner(stats.uid)) return `${escapedPath} belongs to another user`;
  // A link cannot be written, only replaced, and a device stores nothing. In a sticky folder nobody can replace our
  // files.
  const isKept = stats.isFile() || (stats.isDirectory() && (stats.mode & sticky) === 0);
  if (!isKept) return undefined;
  const isExposed = (stats.mode & byAll) !== 0 || ((stats.mode & byGroup) !== 0 && !isOurGroup(stats.gid));
  if (!isExposed || isOnReadOnlyMount(path)) return undefined;
  return `other users can write to ${escapedPath} (mode ${(stats.mode & 0o7777).toString(8).padStart(4, '0')})`;
}

/** Root, this user, and the user who started us with sudo. In a user namespace, files of the host show no owner. */
function isTrustedOwner(uid: number): boolean {
  const own = process.getuid?.();
  if (uid === 0 || uid === own) return true;
  if (own === 0 && String(uid) === process.env['SUDO_UID']) return true;
  return uid === noOwner && isInUserNamespace();
}

const noOwner = 65_534;

function isInUserNamespace(): boolean {
  try {
    return !/^\s*0\s+0\s+4294967295\s*$/.test(readFileSync('/proc/self/uid_map', 'utf8'));
  } catch {
    return false;
  }
}

/** Root's group, or the private group of the user, whose id is the user's id and which has no other members. */
function isOurGroup(gid: number): boolean {
  return (gid === 0 || gid === process.getuid?.()) && !hasOtherMembers(gid);
}

function hasOtherMembers(gid: number): boolean {
  const own = new Set(['', 'root', readOwnUserName()]);
  try {
    const groups = readFileSync('/etc/group', 'utf8').split('\n');
    return groups
      .map((line) => line.split(':'))
      .some(([, , number, members]) => number === String(gid) && members?.split(',').some((name) => !own.has(name)));
  } catch {
    // The members are unknown.
    return true;
  }
}

/** Empty for a user without an account entry, as in some containers. */
function readOwnUserName(): string {
  try {
    return userInfo().username;
  } catch {
    return '';
  }
}

/** Modes do not matter on a read-only mount, such as a volume of settings. */
function isOnReadOnlyMount(path: string): boolean {
  try {
    accessSync(path, constants.W_OK);
    return false;
  } catch (cause) {
    return (cause as NodeJS.ErrnoException).code === 'EROFS';
  }
}
