/**
 * Globs over names, by hand: a star costs no more than a look at each character, whatever the pattern, and what they
 * mean must not depend on where they are used. `*`, `?`, `[a-z]`, `[!a-z]`, `{a,b}`, and `**` for any folders.
 */
export interface Glob {
  /** It is about a name in any folder, not about a path. */
  readonly anywhere: boolean;
  fits(names: readonly string[]): boolean;
}

type Token = string | { readonly any: 'star' | 'one' } | { readonly from: readonly Range[]; readonly not: boolean };
type Range = readonly [string, string];
type Segment = readonly Token[] | '**';

/** `fold` is done to the pattern as to the names it will meet. */
export function compileGlob(pattern: string, fold: (text: string) => string): readonly Glob[] {
  return alternatives(pattern).map((each) => {
    const written = fold(each)
      .replace(/^(?:\.\/)+/, '')
      .replace(/\/+$/, '');
    const segments = written.split('/').filter((segment) => segment !== '');
    const parts = segments.map((segment): Segment => (segment === '**' ? '**' : tokensOf(segment)));
    const anywhere = segments.length === 1 && !written.startsWith('/') && segments[0] !== '**';
    return { anywhere, fits: (names) => parts.length > 0 && pathFits(parts, names, 0, 0) };
  });
}

/** Braces hold a few words in practice; a pattern that would become thousands is taken as it stands. */
const mostAlternatives = 256;

function alternatives(pattern: string): string[] {
  let found = [pattern];
  for (;;) {
    const opened = found.flatMap((each) => {
      const brace = /\{([^{}]*,[^{}]*)\}/.exec(each);
      if (brace === null) return [each];
      const [before, after] = [each.slice(0, brace.index), each.slice(brace.index + brace[0].length)];
      return (brace[1] as string).split(',').map((word) => `${before}${word}${after}`);
    });
    if (opened.length === found.length || opened.length > mostAlternatives) return found;
    found = opened;
  }
}

function tokensOf(segment: string): Token[] {
  const tokens: Token[] = [];
  const characters = [...segment];
  for (let at = 0; at < characters.length; at++) {
    const character = characters[at] as string;
    if (character === '\\' && at + 1 < characters.length) tokens.push(characters[++at] as string);
    else if (character === '*') tokens.push({ any: 'star' });
    else if (character === '?') tokens.push({ any: 'one' });
    else if (character === '[' && characters.indexOf(']', at + 2) > 0) {
      const end = characters.indexOf(']', at + 2);
      tokens.push(classOf(characters.slice(at + 1, end)));
      at = end;
    } else tokens.push(character);
  }
  return tokens;
}

function classOf(characters: readonly string[]): Token {
  const not = characters[0] === '!' || characters[0] === '^';
  const from: Range[] = [];
  const inner = not ? characters.slice(1) : characters;
  for (let at = 0; at < inner.length; at++) {
    const first = inner[at] as string;
    const last = inner[at + 1] === '-' ? inner[at + 2] : undefined;
    from.push([first, last ?? first]);
    if (last !== undefined) at += 2;
  }
  return { from, not };
}

function pathFits(parts: readonly Segment[], names: readonly string[], part: number, name: number): boolean {
  const segment = parts[part];
  if (segment === undefined) return name === names.length;
  if (segment !== '**') {
    return (
      name < names.length && nameFits(segment, names[name] as string) && pathFits(parts, names, part + 1, name + 1)
    );
  }
  // At the end it means all that is inside, not the folder itself.
  if (part === parts.length - 1) return name < names.length;
  for (let next = name; next <= names.length; next++) if (pathFits(parts, names, part + 1, next)) return true;
  return false;
}

/** Only the last star is ever gone back to: an earlier one could not do better. */
function nameFits(tokens: readonly Token[], name: string): boolean {
  const characters = [...name];
  let [at, token, star, after] = [0, 0, -1, 0];
  while (at < characters.length) {
    const now = tokens[token];
    if (now !== undefined && isStar(now)) {
      [star, after] = [token, at];
      token++;
    } else if (now !== undefined && oneFits(now, characters[at] as string)) {
      at++;
      token++;
    } else if (star >= 0) {
      at = ++after;
      token = star + 1;
    } else return false;
  }
  return tokens.slice(token).every(isStar);
}

const isStar = (token: Token): boolean => typeof token === 'object' && 'any' in token && token.any === 'star';

function oneFits(token: Token, character: string): boolean {
  if (typeof token === 'string') return token === character;
  if ('any' in token) return true;
  return token.from.some(([first, last]) => first <= character && character <= last) !== token.not;
}
