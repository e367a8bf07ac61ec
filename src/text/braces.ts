/** Alternatives of one glob, at most: `{a,b}{a,b}…` doubles with each pair. */
const mostAlternatives = 256;
const deepest = 8;

export class GlobError extends Error {}

/** A glob without braces for each of the ways to read one with braces. A backslash takes their meaning away. */
export function expandBraces(glob: string, depth = 0): string[] {
  if (depth > deepest) throw new GlobError('braces are nested too deeply');
  const parts: string[][] = [];
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
      parts.push([plain], bounded(options.flatMap((option) => expandBraces(option, depth + 1))));
      plain = '';
      at = end;
    }
  }
  parts.push([plain]);
  return parts.reduce((all, part) => bounded(all.flatMap((begin) => part.map((rest) => begin + rest))), ['']);
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

function bounded(all: string[]): string[] {
  if (all.length > mostAlternatives) throw new GlobError(`its braces stand for more than ${mostAlternatives} globs`);
  return all;
}
