/** Alternatives of one glob, at most: `{a,b}{a,b}…` doubles with each pair. */
export const mostAlternatives = 256;
const deepest = 8;

export class GlobError extends Error {}

/**
 * A glob without braces for each of the ways to read one with braces, `most` of them at most. A backslash takes their
 * meaning away. The work grows with the length of the glob and with `most`, not with their product.
 */
export function expandBraces(glob: string, most = mostAlternatives, depth = 0): string[] {
  if (depth > deepest) throw new GlobError('braces are nested too deeply');
  let all = [''];
  let plain = '';
  for (let at = 0; at < glob.length; at++) {
    const character = glob[at] as string;
    if (character === '\\') plain += character + (glob[++at] ?? '');
    else if (character === '[') {
      const end = classEnd(glob, at);
      plain += glob.slice(at, end);
      at = end - 1;
    } else if (character === '}') throw new GlobError('"}" has no "{" before it');
    else if (character !== '{') plain += character;
    else {
      const { options, end } = optionsAt(glob, at);
      const choices = expandEach(options, most, depth + 1);
      at = end;
      // A pair with one choice is no more than text.
      if (choices.length === 1) {
        plain += choices[0];
        continue;
      }
      assertFew(all.length * choices.length, most);
      const before = plain;
      all = all.flatMap((begin) => choices.map((choice) => begin + before + choice));
      plain = '';
    }
  }
  return all.map((begin) => begin + plain);
}

function expandEach(options: readonly string[], most: number, depth: number): string[] {
  const all: string[] = [];
  for (const option of options) {
    all.push(...expandBraces(option, most, depth));
    assertFew(all.length, most);
  }
  return all;
}

/** What stands between the commas of one pair of braces. */
function optionsAt(glob: string, start: number): { readonly options: string[]; readonly end: number } {
  const options: string[] = [];
  let depth = 0;
  let begin = start + 1;
  for (let at = start; at < glob.length; at++) {
    const character = glob[at];
    if (character === '\\') at++;
    else if (character === '[') at = classEnd(glob, at) - 1;
    else if (character === '{') depth++;
    else if (character === ',' && depth === 1) {
      options.push(glob.slice(begin, at));
      begin = at + 1;
    } else if (character === '}' && --depth === 0) return { options: [...options, glob.slice(begin, at)], end: at };
  }
  throw new GlobError('"{" has no "}" after it');
}

/** Where the class that begins here is over. */
export function classEnd(glob: string, start: number): number {
  const first = start + (glob[start + 1] === '!' || glob[start + 1] === '^' ? 2 : 1);
  const end = glob.indexOf(']', first + 1);
  if (end === -1) throw new GlobError('"[" has no "]" after it');
  return end + 1;
}

function assertFew(count: number, most: number): void {
  if (count > most) throw new GlobError(`its braces stand for more than ${most} globs`);
}
