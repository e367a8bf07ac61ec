import { differences, type Hunk, linesOf } from './line-diff.ts';

export interface UnifiedDiff {
  readonly text: string;
  readonly added: number;
  readonly removed: number;
}

const context = 3;

/** The hunks of a unified diff, as `git apply` and `patch` take them; without the lines that name the files. */
export function unifiedDiff(before: string, after: string): UnifiedDiff {
  const [old, fresh] = [linesOf(before), linesOf(after)];
  const hunks = differences(old, fresh);
  const added = hunks.reduce((sum, { start, end }) => sum + end - start, 0);
  const removed = hunks.reduce((sum, { from, to }) => sum + to - from, 0);
  const text = grouped(hunks).map((group) => oneGroup(old, fresh, group));
  return { text: text.join(''), added, removed };
}

/** Hunks whose context would overlap are shown together. */
function grouped(hunks: readonly Hunk[]): Hunk[][] {
  const groups: Hunk[][] = [];
  for (const hunk of hunks) {
    const before = groups.at(-1)?.at(-1);
    if (before !== undefined && hunk.from - before.to <= 2 * context) groups.at(-1)?.push(hunk);
    else groups.push([hunk]);
  }
  return groups;
}

function oneGroup(old: readonly string[], fresh: readonly string[], hunks: readonly Hunk[]): string {
  const [first, last] = [hunks[0] as Hunk, hunks.at(-1) as Hunk];
  const lead = Math.min(context, first.from);
  const trail = Math.min(context, old.length - last.to);
  const lines: string[] = [];
  const say = (sign: string, from: readonly string[], start: number, end: number): void => {
    for (const line of from.slice(start, end)) {
      lines.push(line.endsWith('\n') ? sign + line : `${sign}${line}\n\\ No newline at end of file\n`);
    }
  };
  let done = first.from - lead;
  for (const { from, to, start, end } of hunks) {
    say(' ', old, done, from);
    say('-', old, from, to);
    say('+', fresh, start, end);
    done = to;
  }
  say(' ', old, done, last.to + trail);
  const ranges = [range('-', first.from - lead, last.to + trail), range('+', first.start - lead, last.end + trail)];
  return `@@ ${ranges.join(' ')} @@\n${lines.join('')}`;
}

/** Counted from one, except where there are none. */
function range(sign: string, start: number, end: number): string {
  const count = end - start;
  const first = count === 0 ? start : start + 1;
  return count === 1 ? `${sign}${first}` : `${sign}${first},${count}`;
}
