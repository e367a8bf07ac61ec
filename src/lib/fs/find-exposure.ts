import { accessSync, constants, lstatSync, readFileSync, readlinkSync, type Stats } from 'node:fs';
import { userInfo } from 'node:os';
import { dirname, isAbsolute, join, parse, sep } from 'node:path';
import { escapeControls } from '../text/escape-controls.ts';

const maxLinks = 40;
const sticky = 0o1000;
const byGroup = 0o020;
const byAll = 0o002;

/**
 * Why another user could change what a path leads to; undefined where only we and root can. Every folder on the way is
 * looked at, every link, and what lies at the end. What does not exist yet is not judged.
 */
export function findExposure(path: string): string | undefined {
  return findExposureOnPath(path, true);
}

/** The same without what lies at the end: why another user could put something else in its place. */
export function findExposureAbove(path: string): string | undefined {
  return findExposureOnPath(path, false);
}

/**
 * Goes down from the root, as the system does. A folder that has passed can be changed by nobody else, so neither can
 * the name of what lies in it: between this look and the use of the path nothing is exchanged.
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
    const place = name === '..' ? dirname(real) : join(real, name);
    const facts = lstatIfVisible(place);
    // Whoever uses the path finds the same, and says so.
    if (facts === undefined) return undefined;
    const isLink = facts.isSymbolicLink();
    const exposed = isLink || after.length > 0 || withLast ? describeExposure(place, facts) : undefined;
    if (exposed !== undefined) return exposed;
    if (!isLink) {
      real = place;
      continue;
    }
    links += 1;
    if (links > maxLinks) return undefined;
    const target = readlinkSync(place);
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

function describeExposure(place: string, facts: Stats): string | undefined {
  const shown = escapeControls(place);
  if (!isTrustedOwner(facts.uid)) return `${shown} belongs to another user`;
  // A link cannot be written, only replaced, and a device keeps nothing. In a sticky folder nobody can replace what is ours.
  const isKept = facts.isFile() || (facts.isDirectory() && (facts.mode & sticky) === 0);
  if (!isKept) return undefined;
  const isExposed = (facts.mode & byAll) !== 0 || ((facts.mode & byGroup) !== 0 && !isOurGroup(facts.gid));
  if (!isExposed || isOnReadOnlyMount(place)) return undefined;
  return `others may write to ${shown} (mode ${(facts.mode & 0o7777).toString(8).padStart(4, '0')})`;
}

/** Root, we, and whoever used sudo to start us. In a user namespace, files of the host show no owner. */
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

/** The group of root, or the private one that many systems give each user: its number is the user's, and nobody joins. */
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
    // Nobody knows who is in it.
    return true;
  }
}

/** Empty for a user without an entry among the accounts, as in some containers. */
function readOwnUserName(): string {
  try {
    return userInfo().username;
  } catch {
    return '';
  }
}

/** Where nothing can be written, such as a mounted volume of settings, modes do not matter. */
function isOnReadOnlyMount(place: string): boolean {
  try {
    accessSync(place, constants.W_OK);
    return false;
  } catch (cause) {
    return (cause as NodeJS.ErrnoException).code === 'EROFS';
  }
}
