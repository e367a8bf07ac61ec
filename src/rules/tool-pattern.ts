import { foldName } from '../lib/text/fold-name.ts';

/** A pattern of tool names: `*` stands for any text, `?` for one character. */
export interface ToolPattern {
  readonly text: string;
  matches(name: string): boolean;
  /** Whether it matches however a careless server reads the name: other letter case, composed differently. */
  resembles(name: string): boolean;
  /** Whether some name with this prefix could match. */
  mayFollow(prefix: string): boolean;
}

export function compileToolPattern(text: string): ToolPattern {
  const folded = foldName(text);
  const isPlain = !/[*?]/.test(text);
  return {
    text,
    matches: isPlain ? (name) => name === text : (name) => matchesGlob(text, name),
    resembles: (name) => matchesGlob(folded, foldName(name)),
    mayFollow: isPlain ? (prefix) => text.startsWith(prefix) : (prefix) => mayMatchPrefix(text, prefix),
  };
}

/** Backtracks to the last `*` only: hostile names cost at most the product of the lengths. */
function matchesGlob(pattern: string, name: string): boolean {
  let p = 0;
  let n = 0;
  let star = -1;
  let resume = 0;
  while (n < name.length) {
    const wanted = pattern[p];
    if (wanted === '*') {
      star = p++;
      resume = n;
    } else if (wanted === '?' || wanted === name[n]) {
      p++;
      n++;
    } else if (star !== -1) {
      p = star + 1;
      n = ++resume;
    } else {
      return false;
    }
  }
  while (pattern[p] === '*') p++;
  return p === pattern.length;
}

function mayMatchPrefix(pattern: string, prefix: string): boolean {
  for (let i = 0; i < prefix.length; i++) {
    if (pattern[i] === '*') return true;
    if (pattern[i] !== '?' && pattern[i] !== prefix[i]) return false;
  }
  return true;
}
