import { isUtf8 } from 'node:buffer';
import { mkdirSync, readlinkSync, rmdirSync } from 'node:fs';
import { assertNoRepository, mostNames } from './assert-no-repository.ts';
import { type Admit, assertAdmitted, type Deed } from './check-access.ts';
import { type Kind, kindOf } from './file-info.ts';
import { componentsOf } from './path-components.ts';
import { at, type Ground, type Handle } from './platform/platform-fs.ts';
import { noteChange } from './recent-changes.ts';
import { SafeRootError, systemCode } from './saferoot-error.ts';

export interface WalkOptions {
  /** When the last component is a link, stand on the link itself. */
  readonly keepLastLink?: boolean;
  /**
   * Folders that are missing are made on the way; `all` makes the last one too. `none` makes nothing, but tells where
   * the way would lead if they were there.
   */
  readonly make?: 'parents' | 'all' | 'none' | undefined;
  /** What is going to be done at the end of the walk; `read` unless given. */
  readonly deed?: Deed;
  readonly admit?: Admit | undefined;
  /** What is found at the end is going to be removed or replaced. */
  readonly lastGoes?: boolean;
}

/** Where a walk ended. Only what is named here is still held, until `release`. */
export interface Walked {
  /** What is there, or undefined when the last component does not exist. */
  readonly node: Handle | undefined;
  /** The folder it lies in and its name there; undefined for the folder itself. */
  readonly place: Place | undefined;
  /** The names that led there, links followed. */
  readonly inside: readonly string[];
  /** How many folders were made on the way. */
  readonly made: number;
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
  return walkAlong(ground, root, componentsOf(path), options);
}

/** The same for names that led somewhere before. */
export function walkAlong(
  ground: Ground,
  root: Handle,
  components: readonly string[],
  options: WalkOptions = {},
): Walked {
  const ahead = components.toReversed();
  const trail: Step[] = [{ handle: root, name: '' }];
  const { admit, deed = 'read' } = options;
  let missing: string | undefined;
  let inside: readonly string[] | undefined;
  let current = '';
  let links = 0;
  let steps = 0;
  let made = 0;
  const budget = { left: mostNames };
  let fresh: string | undefined;

  const here = (): Handle => (trail.at(-1) as Step).handle;
  /** The oldest handles first. The root stays: it is not the walk's own. */
  const letGo = (count: number): void => {
    for (const { handle } of trail.splice(0, Math.max(0, count))) if (handle !== root) ground.release(handle);
  };
  /** Only `.` and empty components still to come, so that this one decides where the walk ends. */
  const isLast = (): boolean => ahead.every((component) => component === '' || component === '.');

  const names = (...more: string[]): string[] => [...trail.slice(1).map((step) => step.name), ...more];
  /** Also where the walk only passes or fails: nobody learns from it what lies in a folder that is closed to them. */
  const ask = (wanted: Deed, inside: () => string[], kind: Kind | undefined): void => {
    if (admit !== undefined) assertAdmitted(admit, wanted, inside(), kind);
  };

  function advance(name: string): void {
    let handle: Handle;
    try {
      handle = ground.step(here(), name);
    } catch (error) {
      if (systemCode(error) !== 'ENOENT') throw error;
      const last = isLast();
      if (deed === 'write') assertNoRepository(admit, here(), names(), name, budget);
      if (options.make === 'all' || (options.make === 'parents' && !last)) makeFolder(name);
      // A path that ends in a slash can only mean a folder.
      else if (last && ahead.length === 0) standHere(name);
      else if (options.make === 'none') standBefore(name);
      else throw error;
      return;
    }
    if (deed === 'write') {
      try {
        assertNoRepository(admit, here(), names(), name, budget);
      } catch (error) {
        ground.release(handle);
        // Another part of a repository came while this one was made.
        if (fresh !== undefined) removeEmpty(fresh);
        throw error;
      }
    }
    fresh = undefined;
    if (handle.stats.isSymbolicLink() && !(options.keepLastLink && ahead.length === 0)) {
      ground.release(handle);
      follow(name);
      return;
    }
    trail.push({ handle, name });
    if (trail.length > maxDepth) throw new SafeRootError('TOO_DEEP');
  }

  function makeFolder(name: string): void {
    if (made === 0) askAhead(name);
    else ask(deed, () => names(name), 'folder');
    try {
      noteChange(here());
      mkdirSync(at(here(), name));
      fresh = at(here(), name);
      made++;
    } catch (error) {
      if (systemCode(error) !== 'EEXIST') throw error;
    }
    // Walked like any other: what was made may have been exchanged already.
    ahead.push(name);
  }

  /** Whatever would be there could not be reached again if it lay too deep. */
  function standHere(name: string): void {
    if (trail.length >= maxDepth) throw new SafeRootError('TOO_DEEP');
    missing = name;
  }

  function standBefore(name: string): void {
    inside = askAhead(name);
    missing = name;
    ahead.length = 0;
  }

  /** All that is to come is asked for before the first is made: below what is missing there are no links. */
  function askAhead(name: string): string[] {
    const ways = waysAhead(names(name), ahead);
    for (const way of ways) ask(deed, () => way, undefined);
    if (ways.some((way) => way.length >= maxDepth)) throw new SafeRootError('TOO_DEEP');
    return ways.at(-1) as string[];
  }

  function follow(name: string): void {
    ask(deed, () => names(name), 'link');
    if (++links > maxLinks) throw new SafeRootError('TOO_MANY_LINKS');
    const target = targetOf(here(), name);
    if (target === undefined) ahead.push(name);
    else if (target.startsWith('/')) throw new SafeRootError('PATH_VIOLATION');
    else ahead.push(...target.split('/').reverse());
  }

  function goBack(): void {
    ask('read', names, 'folder');
    ground.release((trail.pop() as Step).handle);
  }

  try {
    while (ahead.length > 0) {
      const name = ahead.pop() as string;
      current = name;
      if (++steps > maxSteps) throw new SafeRootError('TOO_DEEP');
      if (!here().stats.isDirectory()) throw new SafeRootError('NOT_A_DIRECTORY');
      if (name === '' || name === '.') continue;
      if (name !== '..') advance(name);
      else if (trail.length === 1) throw new SafeRootError('PATH_VIOLATION');
      else goBack();
    }
    inside ??= missing === undefined ? names() : names(missing);
    assertAdmitted(admit, deed, inside, missing === undefined ? kindOf(here().stats) : undefined);
  } catch (error) {
    const reached = names(current);
    letGo(trail.length);
    // What was to be found there is asked for as if it were: whether it exists is not told either.
    const told = error instanceof SafeRootError && (error.code === 'NOT_ADMITTED' || error.code === 'PATH_VIOLATION');
    if (!told) ask(deed, () => wayAhead(reached, ahead), undefined);
    throw error;
  }

  const end = trail.at(-1) as Step;
  const before = trail.at(-2);
  const held = missing === undefined ? 2 : 1;
  letGo(trail.length - held);
  const release = (): void => {
    const goes = options.lastGoes && missing === undefined && trail.at(-1) === end && end.handle !== root;
    if (goes) ground.releaseGone((trail.pop() as Step).handle);
    letGo(trail.length);
  };
  const way = { inside, made, release };
  if (missing !== undefined) return { node: undefined, place: { folder: end.handle, name: missing }, ...way };
  return { node: end.handle, place: before && { folder: before.handle, name: end.name }, ...way };
}

/** One that somebody has put something into stays: that was looked at by whoever did. */
export function removeEmpty(path: string): void {
  try {
    rmdirSync(path);
  } catch {
    // What is refused is refused either way.
  }
}

/** Where a walk would end, as far as names alone tell. */
function wayAhead(from: readonly string[], ahead: readonly string[]): string[] {
  const way: string[] = [];
  for (const name of [...from, ...ahead.toReversed()]) {
    if (name === '..') way.pop();
    else if (name !== '' && name !== '.') way.push(name);
  }
  return way;
}

/** Where a walk stands, and would stand after each further component, as far as names alone tell. */
function waysAhead(from: readonly string[], ahead: readonly string[]): string[][] {
  const ways = [[...from]];
  for (const name of ahead.toReversed()) {
    const way = [...(ways.at(-1) as string[])];
    if (name === '..') way.pop();
    else if (name !== '' && name !== '.') way.push(name);
    ways.push(way);
  }
  return ways;
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
