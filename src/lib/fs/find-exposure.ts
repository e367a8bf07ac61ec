import { accessSync, constants, lstatSync, readFileSync, readlinkSync, type Stats } from 'node:fs';
import { userInfo } from 'node:os';
import { dirname, isAbsolute, join, parse, sep } from 'node:path';
import { escapeControls } from '../text/escape-controls.ts';

const maxLinks = 40;
const sticky = 0o1000;
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
