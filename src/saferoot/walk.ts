import { isUtf8 } from 'node:buffer';
import { mkdirSync, readlinkSync } from 'node:fs';
import { componentsOf } from './components.ts';
import { at, type Ground, type Handle } from './ground.ts';
import { SafeRootError, systemCode } from './saferoot-error.ts';

export interface WalkOptions {
  /** When the last component is a link, stand on the link itself. */
  readonly keepLastLink?: boolean;
  /** Folders that are missing are made on the way; `all` makes the last one too. */
  readonly make?: 'parents' | 'all' | undefined;
}

/** Where a walk ended. Only what is named here is still held, until `release`. */
export interface Walked {
  /** What is there, or undefined when the last component does not exist. */
  readonly node: Handle | undefined;
  /** The folder it lies in and its name there; undefined for the folder itself. */
  readonly place: Place | undefined;
  release(): void;
}

export interface Place {
  readonly folder: Handle;
  readonly name: string;
}

interface Step {
  readonly handle: Handle;
  readonly name: string;
}

const maxDepth = 128;
const maxLinks = 40;
/** Links can make a short path long; this bounds the work of one walk. */
const maxSteps = 1024;

/**
 * Walks a path from the root, one component at a time, each from the handle of the one before. Links are read and
 * their targets walked the same way; `..` goes back along the handles. The kernel is never given more than one name.
 */
export function walk(ground: Ground, root: Handle, path: string, options: WalkOptions = {}): Walked {
  const ahead = componentsOf(path).reverse();
  const trail: Step[] = [{ handle: root, name: '' }];
  let missing: string | undefined;
  let links = 0;
  let steps = 0;

  const here = (): Handle => (trail.at(-1) as Step).handle;
  /** The oldest handles first. The root stays: it is not the walk's own. */
  const letGo = (count: number): void => {
    for (const { handle } of trail.splice(0, Math.max(0, count))) if (handle !== root) ground.release(handle);
  };
  /** Only `.` and empty components still to come, so that this one decides where the walk ends. */
  const isLast = (): boolean => ahead.every((component) => component === '' || component === '.');

  function advance(name: string): void {
    let handle: Handle;
    try {
      handle = ground.step(here(), name);
    } catch (error) {
      if (systemCode(error) !== 'ENOENT') throw error;
      const last = isLast();
      if (options.make === 'all' || (options.make === 'parents' && !last)) makeFolder(name);
      // A path that ends in a slash can only mean a folder.
      else if (last && ahead.length === 0) missing = name;
      else throw error;
      return;
    }
    if (handle.stats.isSymbolicLink() && !(options.keepLastLink && ahead.length === 0)) {
      ground.release(handle);
      follow(name);
      return;
    }
    trail.push({ handle, name });
    if (trail.length > maxDepth) throw new SafeRootError('TOO_DEEP', { path });
  }

  function makeFolder(name: string): void {
    try {
      mkdirSync(at(here(), name));
    } catch (error) {
      if (systemCode(error) !== 'EEXIST') throw error;
    }
    // Walked like any other: what was made may have been exchanged already.
    ahead.push(name);
  }

  function follow(name: string): void {
    if (++links > maxLinks) throw new SafeRootError('TOO_MANY_LINKS', { path });
    const target = targetOf(here(), name);
    if (target === undefined) ahead.push(name);
    else if (target.startsWith('/')) throw new SafeRootError('PATH_VIOLATION', { path });
    else ahead.push(...target.split('/').reverse());
  }

  try {
    while (ahead.length > 0) {
      const name = ahead.pop() as string;
      if (++steps > maxSteps) throw new SafeRootError('TOO_DEEP', { path });
      if (!here().stats.isDirectory()) throw new SafeRootError('NOT_A_DIRECTORY', { path });
      if (name === '' || name === '.') continue;
      if (name !== '..') advance(name);
      else if (trail.length === 1) throw new SafeRootError('PATH_VIOLATION', { path });
      else ground.release((trail.pop() as Step).handle);
    }
  } catch (error) {
    letGo(trail.length);
    throw error;
  }

  const end = trail.at(-1) as Step;
  const before = trail.at(-2);
  const held = missing === undefined ? 2 : 1;
  letGo(trail.length - held);
  const release = (): void => letGo(trail.length);
  if (missing !== undefined) return { node: undefined, place: { folder: end.handle, name: missing }, release };
  return { node: end.handle, place: before && { folder: before.handle, name: end.name }, release };
}

/** What a link says, or undefined when it is no longer a link: the walk then looks again. */
export function targetOf(folder: Handle, name: string): string | undefined {
  try {
    const target = readlinkSync(at(folder, name), { encoding: 'buffer' });
    if (isUtf8(target)) return target.toString();
  } catch (error) {
    if (systemCode(error) === 'EINVAL') return undefined;
    throw error;
  }
  throw new SafeRootError('PATH_INVALID', { what: 'leads through a link whose target is not UTF-8' });
}
