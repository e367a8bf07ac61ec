import { isUtf8 } from 'node:buffer';
import { mkdirSync, readlinkSync, rmdirSync } from 'node:fs';
import { assertNoRepository, maxNamesRead } from './assert-no-repository.ts';
import { type AccessKind, assertAccess, type CheckAccess } from './check-access.ts';
import { type FileKind, kindFromStats } from './file-info.ts';
import { type Handle, type PlatformFs, pathAt } from './platform/platform-fs.ts';
import { recordChange } from './recent-changes.ts';
import { SafeRootError, systemCode } from './saferoot-error.ts';

/** The longest path that Linux and macOS accept in one call. */
const maxPathBytes = 4096;
const maxNameBytes = 255;
/** The deepest folder that a path may lead to. */
const maxDepth = 128;
/** The names of a path with `..`, which the walk resolves. Each costs a look at its folder. */
const maxNamesWithDots = 4 * maxDepth;

/**
 * Splits a path into components as the kernel sees them, with `..` and empty ones: only the walk knows what they mean.
 * Refuses components that no file can have.
 */
export function parsePath(path: string): string[] {
  if (typeof path !== 'string') throw new SafeRootError('PATH_INVALID', { what: 'is not text' });
  if (path === '') throw new SafeRootError('PATH_INVALID', { path, what: 'is empty; use "." for the folder itself' });
  if (path.startsWith('/')) throw new SafeRootError('PATH_VIOLATION', { path, what: 'is not relative to the folder' });
  if (path.includes('\0')) throw new SafeRootError('PATH_INVALID', { path, what: 'contains a NUL' });
  // Half a surrogate pair would be written as U+FFFD and name another file.
  if (/\p{Cs}/u.test(path)) throw new SafeRootError('PATH_INVALID', { path, what: 'is not well-formed Unicode' });
  if (Buffer.byteLength(path) >= maxPathBytes) throw new SafeRootError('NAME_TOO_LONG', { path });
  const components = path.split('/');
  const names = components.filter((component) => component !== '' && component !== '.' && component !== '..');
  // Refused here, because every later check looks at each folder of the path.
  if (names.length > (components.includes('..') ? maxNamesWithDots : maxDepth))
    throw new SafeRootError('TOO_DEEP', { path });
  for (const component of components) {
    // A UTF-16 unit takes at most three bytes.
    if (component.length * 3 > maxNameBytes && Buffer.byteLength(component) > maxNameBytes) {
      throw new SafeRootError('NAME_TOO_LONG', { path });
    }
  }
  return components;
}

/** Whether no further component names anything, so that the one before decides where a path ends. */
export function hasOnlyDots(components: readonly string[]): boolean {
  return components.every((component) => component === '' || component === '.');
}

/** Resolves `..` by names alone, as if there were no links. */
export function resolveDots(components: readonly string[]): string[] {
  const names: string[] = [];
  for (const name of components) {
    if (name === '..') names.pop();
    else if (name !== '' && name !== '.') names.push(name);
  }
  return names;
}

/** Removes slashes at the end: "new/" often names a folder, which may be missing. */
export function stripTrailingSlash(path: string): string {
  return path.replace(/(?<=[^/])\/+$/, '');
}

/** Splits a path into its names, without empty ones and dots. `..` stays: only a walk can resolve it. */
export function splitIntoNames(path: string): string[] {
  return path.split('/').filter((name) => name !== '' && name !== '.');
}

interface WalkOptions {
  /** Stops at a link in the last component instead of following it. */
  readonly keepLastLink?: boolean;
  /**
   * Makes missing folders; `all` makes the last one too. `none` makes nothing, but returns the names the path would
   * have if they existed.
   */
  readonly make?: 'parents' | 'all' | 'none' | undefined;
  /** The access needed at the end of the walk; `read` by default. */
  readonly access?: AccessKind;
  readonly checkAccess?: CheckAccess | undefined;
  /** The entry at the end is going to be removed or replaced. */
  readonly removesLast?: boolean;
}

/** The end of a walk. The entry and its folder stay held until `release`. */
export interface WalkResult {
  /** The entry, or undefined when the last component does not exist. */
  readonly node: Handle | undefined;
  /** Its folder and its name there; undefined for the root itself. */
  readonly location: EntryLocation | undefined;
  /** The names that lead there, links followed. */
  readonly names: readonly string[];
  readonly made: number;
  release(): void;
}

export interface EntryLocation {
  readonly folder: Handle;
  readonly name: string;
}

interface TrailStep {
  readonly handle: Handle;
  readonly name: string;
}

const maxLinks = 40;
/** Bounds the work of one walk, since links can make a short path long. */
const maxSteps = 1024;

/**
 * Walks a path from the root, one component at a time, each from the handle of the one before. Links are read and their
 * targets walked the same way; `..` goes back along the handles. The kernel never gets more than one name.
 */
export function walkPath(fs: PlatformFs, root: Handle, path: string, options: WalkOptions = {}): WalkResult {
  return walkNames(fs, root, parsePath(path), options);
}

/** Walks names that were parsed before. */
export function walkNames(
  fs: PlatformFs,
  root: Handle,
  names: readonly string[],
  options: WalkOptions = {},
): WalkResult {
  const pending = names.toReversed();
  const trail: TrailStep[] = [{ handle: root, name: '' }];
  const { checkAccess, access = 'read' } = options;
  let missing: string | undefined;
  let resolvedNames: readonly string[] | undefined;
  let currentName = '';
  let links = 0;
  let steps = 0;
  let made = 0;
  const budget = { left: maxNamesRead };
  let madeFolder: string | undefined;

  const currentHandle = (): Handle => (trail.at(-1) as TrailStep).handle;
  /** Releases the oldest handles. The root stays, since the walk did not open it. */
  const releaseOldest = (count: number): void => {
    for (const { handle } of trail.splice(0, Math.max(0, count))) if (handle !== root) fs.release(handle);
  };
  const namesTo = (...more: string[]): string[] => [...trail.slice(1).map((step) => step.name), ...more];
  /** Checks access also where the walk only passes or fails, so that nobody learns what a closed folder holds. */
  const assertMay = (wanted: AccessKind, names: () => string[], kind: FileKind | undefined): void => {
    if (checkAccess !== undefined) assertAccess(checkAccess, wanted, names(), kind);
  };

  function advance(name: string): void {
    let handle: Handle;
    try {
      handle = fs.step(currentHandle(), name);
    } catch (error) {
      if (systemCode(error) !== 'ENOENT') throw error;
      const last = hasOnlyDots(pending);
      if (access === 'write') assertNoRepository(checkAccess, currentHandle(), namesTo(), name, budget);
      if (options.make === 'all' || (options.make === 'parents' && !last)) makeFolder(name);
      // A path that ends in a slash can only mean a folder.
      else if (last && pending.length === 0) stopAtMissing(name);
      else if (options.make === 'none') stopBeforeMissing(name);
      else throw error;
      return;
    }
    if (access === 'write') {
      try {
        assertNoRepository(checkAccess, currentHandle(), namesTo(), name, budget);
      } catch (error) {
        fs.release(handle);
        // Another part of a repository appeared while this one was made.
        if (madeFolder !== undefined) removeIfEmpty(madeFolder);
        throw error;
      }
    }
    madeFolder = undefined;
    if (handle.stats.isSymbolicLink() && !(options.keepLastLink && pending.length === 0)) {
      fs.release(handle);
      followLink(name);
      return;
    }
    trail.push({ handle, name });
    if (trail.length > maxDepth) throw new SafeRootError('TOO_DEEP');
  }

  function makeFolder(name: string): void {
    if (made === 0) assertMayPending(name);
    else assertMay(access, () => namesTo(name), 'folder');
    try {
      recordChange(currentHandle());
      mkdirSync(pathAt(currentHandle(), name));
      madeFolder = pathAt(currentHandle(), name);
      made++;
    } catch (error) {
      if (systemCode(error) !== 'EEXIST') throw error;
    }
    // The new folder is walked like any other, since it may have been exchanged already.
    pending.push(name);
  }

  /** Refuses an entry that would lie too deep to be reached again. */
  function stopAtMissing(name: string): void {
    if (trail.length >= maxDepth) throw new SafeRootError('TOO_DEEP');
    missing = name;
  }

  function stopBeforeMissing(name: string): void {
    resolvedNames = assertMayPending(name);
    missing = name;
    pending.length = 0;
  }

  /** Checks all remaining names before the first folder is made: below a missing folder there are no links. */
  function assertMayPending(name: string): string[] {
    const paths = listPendingPaths(namesTo(name), pending);
    for (const path of paths) assertMay(access, () => path, undefined);
    if (paths.some(({ length }) => length >= maxDepth)) throw new SafeRootError('TOO_DEEP');
    return paths.at(-1) as string[];
  }

  function followLink(name: string): void {
    assertMay(access, () => namesTo(name), 'link');
    if (++links > maxLinks) throw new SafeRootError('TOO_MANY_LINKS');
    const target = readLinkAt(currentHandle(), name);
    if (target === undefined) pending.push(name);
    else if (target.startsWith('/')) throw new SafeRootError('PATH_VIOLATION');
    else pending.push(...target.split('/').reverse());
  }

  function goToParent(): void {
    assertMay('read', namesTo, 'folder');
    fs.release((trail.pop() as TrailStep).handle);
  }

  try {
    while (pending.length > 0) {
      const name = pending.pop() as string;
      currentName = name;
      if (++steps > maxSteps) throw new SafeRootError('TOO_DEEP');
      if (!currentHandle().stats.isDirectory()) throw new SafeRootError('NOT_A_DIRECTORY');
      if (name === '' || name === '.') continue;
      if (name !== '..') advance(name);
      else if (trail.length === 1) throw new SafeRootError('PATH_VIOLATION');
      else goToParent();
    }
    resolvedNames ??= missing === undefined ? namesTo() : namesTo(missing);
    const kind = missing === undefined ? kindFromStats(currentHandle().stats) : undefined;
    assertAccess(checkAccess, access, resolvedNames, kind);
  } catch (error) {
    const reached = namesTo(currentName);
    releaseOldest(trail.length);
    // Access is checked as if the entry existed, so that its existence is not revealed either.
    const isDisclosed =
      error instanceof SafeRootError && (error.code === 'NOT_ADMITTED' || error.code === 'PATH_VIOLATION');
    if (!isDisclosed) assertMay(access, () => resolveDots([...reached, ...pending.toReversed()]), undefined);
    throw error;
  }

  const end = trail.at(-1) as TrailStep;
  const parent = trail.at(-2);
  const heldCount = missing === undefined ? 2 : 1;
  releaseOldest(trail.length - heldCount);
  const release = (): void => {
    const isRemoved = options.removesLast && missing === undefined && trail.at(-1) === end && end.handle !== root;
    if (isRemoved) fs.releaseRemoved((trail.pop() as TrailStep).handle);
    releaseOldest(trail.length);
  };
  const rest = { names: resolvedNames, made, release };
  if (missing !== undefined) return { node: undefined, location: { folder: end.handle, name: missing }, ...rest };
  return { node: end.handle, location: parent && { folder: parent.handle, name: end.name }, ...rest };
}

/** Removes a folder that is still empty. Entries that others have put into it were checked by them. */
export function removeIfEmpty(path: string): void {
  try {
    rmdirSync(path);
  } catch {
    // The operation is refused either way.
  }
}

/** Lists the path after each remaining component, by names alone. */
function listPendingPaths(from: readonly string[], ahead: readonly string[]): string[][] {
  const paths = [[...from]];
  for (const name of ahead.toReversed()) {
    const path = [...(paths.at(-1) as string[])];
    if (name === '..') path.pop();
    else if (name !== '' && name !== '.') path.push(name);
    paths.push(path);
  }
  return paths;
}

/** Reads the target of a link. Returns undefined when it is no link any more; the walk then looks again. */
export function readLinkAt(folder: Handle, name: string): string | undefined {
  try {
    const target = readlinkSync(pathAt(folder, name), { encoding: 'buffer' });
    if (isUtf8(target)) return target.toString();
  } catch (error) {
    if (systemCode(error) === 'EINVAL') return undefined;
    throw error;
  }
  throw new SafeRootError('PATH_INVALID', { what: 'leads through a link whose target is not UTF-8' });
}

export interface RootFolder {
  readonly fs: PlatformFs;
  readonly root: Handle;
  /** Refuses files with several names even for reading, and does not enter other mounts. */
  readonly strict: boolean;
  readonly checkAccess: CheckAccess | undefined;
  /** Called before entries of a folder are checked. Returns what to wait for, so that the check knows all its rules. */
  readonly prepare?: ((names: readonly string[]) => Promise<void> | undefined) | undefined;
}

export interface RootWalk extends Omit<WalkOptions, 'checkAccess'> {
  readonly access: AccessKind;
}

export function walkInRoot(folder: RootFolder, path: string, options: RootWalk): WalkResult {
  return walkPath(folder.fs, folder.root, path, { ...options, checkAccess: folder.checkAccess });
}

/** Walks to a path, does the work and releases every handle. */
export function withPath<T>(folder: RootFolder, path: string, options: RootWalk, work: (end: WalkResult) => T): T {
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
  options: RootWalk,
  work: (end: WalkResult) => Promise<T>,
): Promise<T> {
  const end = walkInRoot(folder, path, options);
  try {
    return await work(end);
  } finally {
    end.release();
  }
}

/** Returns the entry that the walk found, or throws when there is none. */
export function requireNode(end: WalkResult): Handle {
  if (end.node === undefined) throw new SafeRootError('FILE_NOT_FOUND');
  return end.node;
}

/** Returns the location of an entry that can be made, moved or removed: any but the root itself. */
export function requireLocation(end: WalkResult): EntryLocation {
  if (end.location === undefined) throw new SafeRootError('PATH_VIOLATION', { what: 'is the folder itself' });
  return end.location;
}

/** Refuses everything but regular files, before anything is opened. */
export function assertRegularFile(handle: Handle, folder: RootFolder): void {
  if (handle.stats.isDirectory()) throw new SafeRootError('IS_A_DIRECTORY');
  if (!handle.stats.isFile()) throw new SafeRootError('SPECIAL_FILE');
  if (folder.strict && handle.stats.nlink > 1) throw new SafeRootError('HARD_LINKED');
}

export function isSameFile(one: Handle, other: Handle): boolean {
  return one.stats.ino === other.stats.ino && one.stats.dev === other.stats.dev;
}
