import { expandBraces, GlobError, mostAlternatives } from './braces.ts';
import { type NamePattern, namePattern } from './name-pattern.ts';

/**
 * Fits paths: `*` and `?` stay within a name, `**` stands for any number of folders, `[…]` and `{a,b}` for choices. No
 * expression of JavaScript is made from it: those can be written so that they never come to an end.
 */
export interface Glob {
  matches(path: string): boolean;
  /** The same for the names of a path. */
  fits(names: readonly string[]): boolean;
  /** Whether something in this folder could match. */
  mayHold(folder: string): boolean;
  /** The last part of each of its alternatives: whatever matches has a name that fits one of them. */
  readonly names: readonly string[];
  /** Of all its alternatives together. */
  readonly characters: number;
}

type Part = 'folders' | NamePattern;

/** Where neither glob nor path would be meant to have more. */
const longest = 1000;
const mostParts = 64;

export interface GlobOptions {
  /** A glob without a slash fits a name in any folder. */
  readonly anywhere?: boolean;
  /** What its alternatives may come to; 256 of them unless given. */
  readonly most?: GlobRoom;
}

export interface GlobRoom {
  readonly globs: number;
  readonly characters: number;
}

/** Throws a GlobError that says what is wrong with it. */
export function compileGlob(glob: string, { anywhere = false, most }: GlobOptions = {}): Glob {
  if (glob.length > longest) throw new GlobError(`it is longer than ${longest} characters`);
  const whole = anywhere && !glob.includes('/') ? `**/${glob}` : glob;
  const expanded = expandBraces(whole, Math.min(most?.globs ?? mostAlternatives, mostAlternatives));
  const characters = expanded.reduce((sum, each) => sum + each.length, 0);
  // Before the rest is done, which takes much longer.
  if (characters > (most?.characters ?? Number.POSITIVE_INFINITY)) throw new GlobError('its braces stand for too much');
  const alternatives = expanded.map(partsOf);
  const fits = (names: readonly string[]) => alternatives.some((parts) => partsFit(parts, names));
  return {
    matches: (path) => fits(path.split('/')),
    fits,
    mayHold: (folder) =>
      folder === '.' || alternatives.some((parts) => hasMore(walk(parts, folder.split('/')), parts.length)),
    characters,
    names: expanded.map((each) => withoutTrailing(each).split('/').at(-1) as string),
  };
}

function partsFit(parts: readonly Part[], names: readonly string[]): boolean {
  if (parts.includes('folders')) return walk(parts, names).has(parts.length);
  // Nearly every glob is of this kind, and some are asked about every path.
  return parts.length === names.length && parts.every((part, at) => (part as NamePattern)(names[at] as string));
}

function walk(parts: readonly Part[], names: readonly string[]): ReadonlySet<number> {
  return names.reduce((states, name) => step(parts, states, name), start(parts));
}

function hasMore(states: ReadonlySet<number>, end: number): boolean {
  for (const state of states) if (state < end) return true;
  return false;
}

function partsOf(glob: string): Part[] {
  const names = withoutTrailing(glob)
    .split('/')
    .filter((name) => name !== '' && name !== '.');
  if (names.length > mostParts) throw new GlobError(`it has more than ${mostParts} parts`);
  const parts = names.map((name): Part => (name === '**' ? 'folders' : namePattern(name)));
  // What is in a folder, not the folder itself.
  return parts.at(-1) === 'folders' ? [...parts, () => true] : parts;
}

const withoutTrailing = (glob: string): string => glob.replace(/(?<!\/)\/+$/, '');

/** The parts that may come next; `**` may stand for nothing. */
function start(parts: readonly Part[]): ReadonlySet<number> {
  return reached(parts, [0]);
}

function step(parts: readonly Part[], states: ReadonlySet<number>, name: string): ReadonlySet<number> {
  const next: number[] = [];
  for (const state of states) {
    const part = parts[state];
    if (part === 'folders') next.push(state);
    else if (part?.(name) === true) next.push(state + 1);
  }
  return reached(parts, next);
}

function reached(parts: readonly Part[], states: Iterable<number>): ReadonlySet<number> {
  const all = new Set<number>();
  for (const state of states) {
    all.add(state);
    for (let at = state; parts[at] === 'folders'; at++) all.add(at + 1);
  }
  return all;
}
