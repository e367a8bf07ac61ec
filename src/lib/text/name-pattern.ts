import { classEnd, GlobError } from './braces.ts';

/** Fits names: what stands between two slashes of a glob. */
export type NamePattern = (name: string) => boolean;

type Piece = 'any' | { readonly fits: (character: string) => boolean };

/**
 * `*`, `?` and `[…]` as globs have them. Matching goes back to the last star only, so that its time grows with the
 * product of the two lengths at most: neither names nor globs can make it hang.
 */
export function namePattern(glob: string): NamePattern {
  const pieces = piecesOf(glob);
  const literal = literalOf(glob);
  if (literal !== undefined) return (name) => name === literal;
  if (pieces.length === 1 && pieces[0] === 'any') return () => true;
  const ending = glob.startsWith('*') ? literalOf(glob.slice(1)) : undefined;
  if (ending !== undefined) return (name) => name.endsWith(ending);
  return (name) => fits(pieces, [...name]);
}

/** The one name that fits, where no other does. */
function literalOf(glob: string): string | undefined {
  return /[*?[\\]/.test(glob) ? undefined : glob;
}

function fits(pieces: readonly Piece[], name: readonly string[]): boolean {
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

function piecesOf(glob: string): Piece[] {
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
      const end = classEnd(glob, at);
      pieces.push({ fits: classOf(glob.slice(at + 1, end - 1)) });
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

function classOf(inside: string): (character: string) => boolean {
  const negated = inside.startsWith('!') || inside.startsWith('^');
  const characters = [...(negated ? inside.slice(1) : inside)];
  const ranges: [number, number][] = [];
  for (let at = 0; at < characters.length; at++) {
    const from = codeOf(characters[at]);
    const isRange = characters[at + 1] === '-' && at + 2 < characters.length;
    const to = isRange ? codeOf(characters[at + 2]) : from;
    if (to < from) throw new GlobError(`"${characters[at]}-${characters[at + 2]}" is no range`);
    ranges.push([from, to]);
    if (isRange) at += 2;
  }
  return (character) => {
    const code = codeOf(character);
    return ranges.some(([from, to]) => from <= code && code <= to) !== negated;
  };
}

const codeOf = (character: string | undefined): number => character?.codePointAt(0) ?? 0;
