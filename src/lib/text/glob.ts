export class GlobError extends Error {}

/**
 * Matches paths: `*` and `?` stay within a name, `**` stands for any number of folders, `[…]` and `{a,b}` for choices.
 * It is not compiled to a regular expression, since those can be written so that they never end.
 */
export interface Glob {
  matches(path: string): boolean;
  /** Matches a path that is already split into names. */
  fits(names: readonly string[]): boolean;
  /** Whether something in this folder could match. */
  mayContain(folder: string): boolean;
  /** The last part of each alternative: every matching path has a name that matches one of them. */
  readonly names: readonly string[];
  /** Length of all alternatives together. */
  readonly characters: number;
}

/** Matches names: the part between two slashes of a glob. */
type NamePattern = (name: string) => boolean;

type Part = 'folders' | NamePattern;

/** Limits that no reasonable glob or path exceeds. */
const maxLength = 1000;
const maxParts = 64;

interface GlobOptions {
  /** Lets a glob without a slash match in any folder. */
  readonly matchAnyFolder?: boolean;
  /** Limits of its alternatives; 256 of them by default. */
  readonly limits?: GlobLimits;
}

export interface GlobLimits {
  readonly globs: number;
  readonly characters: number;
}

/** Compiles a glob. Throws a GlobError that says what is wrong with it. */
export function compileGlob(glob: string, { matchAnyFolder: anywhere = false, limits: most }: GlobOptions = {}): Glob {
  if (glob.length > maxLength) throw new GlobError(`it is longer than ${maxLength} characters`);
  const whole = anywhere && !glob.includes('/') ? `**/${glob}` : glob;
  const expanded = expandBraces(whole, Math.min(most?.globs ?? maxAlternatives, maxAlternatives));
  const characters = expanded.reduce((sum, each) => sum + each.length, 0);
  // Checked before the rest, which takes much longer.
  if (characters > (most?.characters ?? Number.POSITIVE_INFINITY))
    throw new GlobError('its braces expand to too many characters');
  const alternatives = expanded.map(parseParts);
  const fits = (names: readonly string[]) => alternatives.some((parts) => matchParts(parts, names));
  return {
    matches: (path) => fits(path.split('/')),
    fits,
    mayContain: (folder) =>
      folder === '.' || alternatives.some((parts) => hasOpenState(walkParts(parts, folder.split('/')), parts.length)),
    characters,
    names: expanded.map((each) => trimTrailingSlashes(each).split('/').at(-1) as string),
  };
}

function matchParts(parts: readonly Part[], names: readonly string[]): boolean {
  if (parts.includes('folders')) return walkParts(parts, names).has(parts.length);
  // Fast path: nearly every glob is of this kind, and some are tested against every path.
  return parts.length === names.length && parts.every((part, at) => (part as NamePattern)(names[at] as string));
}

function walkParts(parts: readonly Part[], names: readonly string[]): ReadonlySet<number> {
  return names.reduce((states, name) => nextStates(parts, states, name), addReachable(parts, [0]));
}

function hasOpenState(states: ReadonlySet<number>, end: number): boolean {
  for (const state of states) if (state < end) return true;
  return false;
}

function parseParts(glob: string): Part[] {
  const names = trimTrailingSlashes(glob)
    .split('/')
    .filter((name) => name !== '' && name !== '.');
  if (names.length > maxParts) throw new GlobError(`it has more than ${maxParts} parts`);
  const parts = names.map((name): Part => (name === '**' ? 'folders' : compileName(name)));
  // A final `**` matches the content of a folder, not the folder itself.
  return parts.at(-1) === 'folders' ? [...parts, () => true] : parts;
}

const trimTrailingSlashes = (glob: string): string => glob.replace(/(?<!\/)\/+$/, '');

function nextStates(parts: readonly Part[], states: ReadonlySet<number>, name: string): ReadonlySet<number> {
  const next: number[] = [];
  for (const state of states) {
    const part = parts[state];
    if (part === 'folders') next.push(state);
    else if (part?.(name) === true) next.push(state + 1);
  }
  return addReachable(parts, next);
}

function addReachable(parts: readonly Part[], states: Iterable<number>): ReadonlySet<number> {
  const all = new Set<number>();
  for (const state of states) {
    all.add(state);
    for (let at = state; parts[at] === 'folders'; at++) all.add(at + 1);
  }
  return all;
}

/** Limit of alternatives of one glob: `{a,b}{a,b}…` doubles with each pair. */
const maxAlternatives = 256;
const maxBraceDepth = 8;

/** Expands braces into at most `limit` globs, in time linear in the glob and in `limit`. A backslash escapes. */
export function expandBraces(glob: string, limit = maxAlternatives, depth = 0): string[] {
  if (depth > maxBraceDepth) throw new GlobError('braces are nested too deeply');
  let all = [''];
  let plain = '';
  for (let at = 0; at < glob.length; at++) {
    const character = glob[at] as string;
    if (character === '\\') plain += character + (glob[++at] ?? '');
    else if (character === '[') {
      const end = findClassEnd(glob, at);
      plain += glob.slice(at, end);
      at = end - 1;
    } else if (character === '}') throw new GlobError('"}" has no "{" before it');
    else if (character !== '{') plain += character;
    else {
      const { options, end } = readOptions(glob, at);
      const choices = expandEach(options, limit, depth + 1);
      at = end;
      // A pair with one choice is plain text.
      if (choices.length === 1) {
        plain += choices[0];
        continue;
      }
      assertBelowLimit(all.length * choices.length, limit);
      const before = plain;
      all = all.flatMap((begin) => choices.map((choice) => begin + before + choice));
      plain = '';
    }
  }
  return all.map((begin) => begin + plain);
}

function expandEach(options: readonly string[], limit: number, depth: number): string[] {
  const all: string[] = [];
  for (const option of options) {
    all.push(...expandBraces(option, limit, depth));
    assertBelowLimit(all.length, limit);
  }
  return all;
}

/** Reads the options of one pair of braces. */
function readOptions(glob: string, start: number): { readonly options: string[]; readonly end: number } {
  const options: string[] = [];
  let depth = 0;
  let begin = start + 1;
  for (let at = start; at < glob.length; at++) {
    const character = glob[at];
    if (character === '\\') at++;
    else if (character === '[') at = findClassEnd(glob, at) - 1;
    else if (character === '{') depth++;
    else if (character === ',' && depth === 1) {
      options.push(glob.slice(begin, at));
      begin = at + 1;
    } else if (character === '}' && --depth === 0) return { options: [...options, glob.slice(begin, at)], end: at };
  }
  throw new GlobError('"{" has no "}" after it');
}

/** Finds the end of the character class that begins here. */
function findClassEnd(glob: string, start: number): number {
  const first = start + (glob[start + 1] === '!' || glob[start + 1] === '^' ? 2 : 1);
  const end = glob.indexOf(']', first + 1);
  if (end === -1) throw new GlobError('"[" has no "]" after it');
  return end + 1;
}

function assertBelowLimit(count: number, limit: number): void {
  if (count > limit) throw new GlobError(`its braces expand to more than ${limit} globs`);
}

type Piece = 'any' | { readonly fits: (character: string) => boolean };

/**
 * Compiles `*`, `?` and `[…]` of one name. Matching backtracks to the last star only, so its time is bounded by the
 * product of the lengths: neither names nor globs can make it hang.
 */
function compileName(glob: string): NamePattern {
  const pieces = parsePieces(glob);
  const literal = readLiteral(glob);
  if (literal !== undefined) return (name) => name === literal;
  if (pieces.length === 1 && pieces[0] === 'any') return () => true;
  const ending = glob.startsWith('*') ? readLiteral(glob.slice(1)) : undefined;
  if (ending !== undefined) return (name) => name.endsWith(ending);
  return (name) => matchPieces(pieces, [...name]);
}

/** Returns the one name that matches, if the glob has no wildcard. */
function readLiteral(glob: string): string | undefined {
  return /[*?[\\]/.test(glob) ? undefined : glob;
}

function matchPieces(pieces: readonly Piece[], name: readonly string[]): boolean {
  let piece = 0;
  let star = -1;
  let resumeAt = 0;
  for (let at = 0; at < name.length; ) {
    const next = pieces[piece];
    if (next === 'any') {
      star = piece++;
      resumeAt = at;
    } else if (next?.fits(name[at] as string)) {
      piece++;
      at++;
    } else if (star !== -1) {
      piece = star + 1;
      at = ++resumeAt;
    } else return false;
  }
  while (pieces[piece] === 'any') piece++;
  return piece === pieces.length;
}

function parsePieces(glob: string): Piece[] {
  const pieces: Piece[] = [];
  for (let at = 0; at < glob.length; ) {
    const character = String.fromCodePoint(glob.codePointAt(at) as number);
    if (character === '*') {
      if (pieces.at(-1) !== 'any') pieces.push('any');
      at++;
    } else if (character === '?') {
      pieces.push({ fits: () => true });
      at++;
    } else if (character === '[') {
      const end = findClassEnd(glob, at);
      pieces.push({ fits: compileClass(glob.slice(at + 1, end - 1)) });
      at = end;
    } else {
      const escaped = character === '\\' ? glob.codePointAt(at + 1) : undefined;
      if (character === '\\' && escaped === undefined) throw new GlobError('it ends with a backslash');
      const meant = escaped === undefined ? character : String.fromCodePoint(escaped);
      pieces.push({ fits: (other) => other === meant });
      at += meant.length + (escaped === undefined ? 0 : 1);
    }
  }
  return pieces;
}

const codePoint = (character: string | undefined): number => character?.codePointAt(0) ?? 0;

function compileClass(inside: string): (character: string) => boolean {
  const negated = inside.startsWith('!') || inside.startsWith('^');
  const characters = [...(negated ? inside.slice(1) : inside)];
  const ranges: [number, number][] = [];
  for (let at = 0; at < characters.length; at++) {
    const from = codePoint(characters[at]);
    const isRange = characters[at + 1] === '-' && at + 2 < characters.length;
    const to = isRange ? codePoint(characters[at + 2]) : from;
    if (to < from) throw new GlobError(`"${characters[at]}-${characters[at + 2]}" is not a valid range`);
    ranges.push([from, to]);
    if (isRange) at += 2;
  }
  return (character) => {
    const code = codePoint(character);
    return ranges.some(([from, to]) => from <= code && code <= to) !== negated;
  };
}
