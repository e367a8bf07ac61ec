import { findRuns, placesOf } from './find-runs.ts';
import { toLf } from './line-endings.ts';
import type { Match } from './match.ts';

/** Comparisons of lines that are made before the search is given up: a text can have candidates without end. */
const mostComparisons = 2_000_000;
const mostLines = 1_000_000;

/**
 * Whole lines that are the sought ones but for one indentation that all of them have more, less, or otherwise. Blanks
 * before line breaks do not count.
 */
export function findIndented(text: string, sought: string, most: number): Match[] {
  const wanted = toLf(sought).split('\n');
  const endsInBreak = wanted.length > 1 && wanted.at(-1) === '';
  if (endsInBreak) wanted.pop();
  const taken = commonIndent(wanted);
  if (taken === undefined) return [];
  const ids = new Map<string, number>();
  const run = wanted.map((line) => {
    const core = line.trim();
    const id = ids.get(core) ?? ids.size;
    ids.set(core, id);
    return id;
  });
  const longest = [...ids.keys()].reduce((a, b) => (b.length > a.length ? b : a));
  if (placesOf(text, longest, 1).length === 0) return [];
  const lines = linesOf(text);
  if (lines.length > mostLines) return [];
  const all = Int32Array.from(lines, ({ start, end }) => ids.get(text.slice(start, end).trim()) ?? -1);
  const matches: Match[] = [];
  let left = mostComparisons;
  for (const first of findRuns(all, run, Number.POSITIVE_INFINITY)) {
    left -= wanted.length;
    if (left < 0 || matches.length >= most) break;
    const there = lines.slice(first, first + wanted.length).map(({ start, end }) => text.slice(start, end));
    const given = commonIndent(there) as string;
    if (!wanted.every((line, i) => isSame(line.slice(taken.length), (there[i] as string).slice(given.length))))
      continue;
    const last = lines[first + wanted.length - 1] as Line;
    matches.push({
      start: (lines[first] as Line).start,
      end: endsInBreak ? last.next : last.end,
      ...(endsInBreak && last.next === last.end ? { withoutBreak: true } : {}),
      indent: differing(taken, given),
    });
  }
  return matches;
}

interface Line {
  readonly start: number;
  /** Before its line break. */
  readonly end: number;
  /** After its line break. */
  readonly next: number;
}

function linesOf(text: string): Line[] {
  const lines: Line[] = [];
  for (let start = 0; start < text.length && lines.length <= mostLines; ) {
    const found = text.indexOf('\n', start);
    const next = found === -1 ? text.length : found + 1;
    const end = found === -1 ? next : found > start && text[found - 1] === '\r' ? found - 1 : found;
    lines.push({ start, end, next });
    start = next;
  }
  return lines;
}

/** What all lines that say something begin with; undefined when none does. */
function commonIndent(lines: readonly string[]): string | undefined {
  let common: string | undefined;
  for (const line of lines) {
    if (line.trim() === '') continue;
    let length = 0;
    const limit = common?.length ?? line.length;
    while (length < limit && (line[length] === ' ' || line[length] === '\t')) {
      if (common !== undefined && line[length] !== common[length]) break;
      length++;
    }
    common = line.slice(0, length);
  }
  return common;
}

function isSame(a: string, b: string): boolean {
  return a.trim() === '' ? b.trim() === '' : a.trimEnd() === b.trimEnd();
}

/** What the two indentations end with alike needs no change. */
function differing(taken: string, given: string): { take: string; give: string } {
  let same = 0;
  while (same < taken.length && same < given.length && taken.at(-1 - same) === given.at(-1 - same)) same++;
  return { take: taken.slice(0, taken.length - same), give: given.slice(0, given.length - same) };
}
