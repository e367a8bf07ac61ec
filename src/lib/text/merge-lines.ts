import { differences, type Hunk, linesOf } from './line-diff.ts';

/**
 * What two people made of one text, put together; undefined where both changed the same lines, or lines that touch, in
 * different ways.
 */
export function mergeLines(base: string, ours: string, theirs: string): string | undefined {
  const [old, one, other] = [linesOf(base), linesOf(ours), linesOf(theirs)];
  const [mine, yours] = [differences(old, one), differences(old, other)];
  // Pieces, not lines: a file may have more lines than a call can have arguments.
  const merged: string[][] = [];
  let [i, j, done] = [0, 0, 0];
  while (i < mine.length || j < yours.length) {
    const [first, last] = [i, j];
    let [from, to] = [Number.POSITIVE_INFINITY, -1];
    // All that overlaps or touches is one region.
    for (;;) {
      const next = [mine[i], yours[j]].filter((hunk) => hunk !== undefined && (to === -1 || hunk.from <= to)) as Hunk[];
      const hunk = next.sort((a, b) => a.from - b.from)[0];
      if (hunk === undefined) break;
      from = Math.min(from, hunk.from);
      to = Math.max(to, hunk.to);
      if (hunk === mine[i]) i++;
      else j++;
    }
    merged.push(old.slice(done, from));
    done = to;
    const a = regionOf(one, mine.slice(first, i), from, to, shiftBefore(mine, first));
    const b = regionOf(other, yours.slice(last, j), from, to, shiftBefore(yours, last));
    if (last === j) merged.push(a);
    else if (first === i) merged.push(b);
    else if (a.join('') === b.join('')) merged.push(a);
    else return undefined;
  }
  merged.push(old.slice(done));
  return merged.flat().join('');
}

/** How much further down a line stands in the new text than in the old one, before this hunk. */
function shiftBefore(hunks: readonly Hunk[], index: number): number {
  const before = hunks[index - 1];
  return before === undefined ? 0 : before.end - before.to;
}

/** The lines that stand for `[from, to)` of the old text. */
function regionOf(lines: readonly string[], hunks: readonly Hunk[], from: number, to: number, shift: number): string[] {
  const last = hunks.at(-1);
  const after = last === undefined ? shift : last.end - last.to;
  return lines.slice(from + shift, to + after);
}
