import { findRuns, placesOf } from './find-runs.ts';
import { toLf } from './line-endings.ts';
import type { Match } from './match.ts';

/** Comparisons of lines that are made before the search is given up: a text can have candidates without end. */
const mostComparisons = 2_000_000;
/** Characters of indentations that are compared, likewise. */
const mostCharacters = 8_000_000;
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
  const leads = new Int32Array(lines.length);
  const all = new Int32Array(lines.length);
  lines.forEach(({ start, end }, i) => {
    const line = text.slice(start, end);
    leads[i] = leadOf(line);
    all[i] = ids.get(line.trim()) ?? -1;
  });
  // What says the same differs in what stands before it, and nowhere else.
  const rests = wanted.map((line) => (line.trim() === '' ? undefined : line.slice(taken.length, leadOf(line))));
  const anchor = rests.findIndex((rest) => rest !== undefined);
  const matches: Match[] = [];
  const left: Left = { comparisons: mostComparisons, characters: mostCharacters };
  for (const first of findRuns(all, run, Number.POSITIVE_INFINITY)) {
    if (matches.length >= most) break;
    const length = (leads[first + anchor] as number) - (rests[anchor] as string).length;
    const given = areAllLonger(rests, leads, first, length, left)
      ? givenIndent(text, lines, rests, { first, anchor, length }, left)
      : undefined;
    // Some of the places would be taken for all of them.
    if (left.comparisons < 0 || left.characters < 0) return [];
    if (given === undefined) continue;
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

/** What the search may still cost. */
interface Left {
  comparisons: number;
  characters: number;
}

type Rests = readonly (string | undefined)[];

/** Whether all lines that say something have so many characters more before it: told by numbers, without a look at the text. */
function areAllLonger(rests: Rests, leads: Int32Array, first: number, length: number, left: Left): boolean {
  if (length < 0) return false;
  for (const [i, rest] of rests.entries()) {
    left.comparisons--;
    if (rest !== undefined && (leads[first + i] as number) - rest.length !== length) return false;
  }
  return true;
}

interface Candidate {
  /** The line of the text that it begins with. */
  readonly first: number;
  /** Which of the sought lines is the first that says something. */
  readonly anchor: number;
  /** Of the indentation. */
  readonly length: number;
}

/** The indentation that all lines have before what the sought ones have; undefined where they do not have one. */
function givenIndent(
  text: string,
  lines: readonly Line[],
  rests: Rests,
  { first, anchor, length }: Candidate,
  left: Left,
): string | undefined {
  const { start } = lines[first + anchor] as Line;
  const given = text.slice(start, start + length);
  left.characters -= length;
  if (!/^[ \t]*$/.test(given)) return undefined;
  for (const [i, rest] of rests.entries()) {
    if (rest === undefined) continue;
    const from = (lines[first + i] as Line).start;
    left.characters -= length + rest.length;
    if (left.characters < 0) return undefined;
    if (text.slice(from, from + length) !== given || !text.startsWith(rest, from + length)) return undefined;
  }
  return given;
}

/** How many blanks a line begins with, of whatever kind. */
const leadOf = (line: string): number => line.length - line.trimStart().length;

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

/** What the two indentations end with alike needs no change. */
function differing(taken: string, given: string): { take: string; give: string } {
  let same = 0;
  while (same < taken.length && same < given.length && taken.at(-1 - same) === given.at(-1 - same)) same++;
  return { take: taken.slice(0, taken.length - same), give: given.slice(0, given.length - same) };
}
