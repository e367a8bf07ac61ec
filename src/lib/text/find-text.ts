import { findRuns, placesOf } from './find-occurrences.ts';
import { toLf } from './line-endings.ts';

/** Comparisons of lines that are made before the search is given up: a text can have candidates without end. */
const mostComparisons = 2_000_000;

/** Characters of indentations that are compared, likewise. */
const mostCharacters = 8_000_000;

const mostLines = 1_000_000;

/** What the search may still cost. */
interface Left {
  comparisons: number;
  characters: number;
}

type Rests = readonly (string | undefined)[];

interface Candidate {
  /** The line of the text that it begins with. */
  readonly first: number;
  /** Which of the sought lines is the first that says something. */
  readonly anchor: number;
  /** Of the indentation. */
  readonly length: number;
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

/** A text without what does not count, and the way back. */
interface Squeezed {
  readonly text: string;
  /** Where characters of the squeezed text stand in the original; their places come in rising order. */
  origins(places: readonly number[]): number[];
}

/** A part of a text that stands for the one sought. */
export interface Match {
  readonly start: number;
  readonly end: number;
  /** The file ends where the text sought has one more line break. */
  readonly withoutBreak?: true;
  /** The lines there begin with `give` where those sought begin with `take`. */
  readonly indent?: { readonly take: string; readonly give: string };
}

/** How the text was found, the strictest first. None of them guesses: each says in what the two may differ. */
export type Strategy = 'exact' | 'line-endings' | 'trailing-whitespace' | 'indentation';

export interface Found {
  readonly strategy: Strategy;
  /** In order; they may overlap. */
  readonly matches: readonly Match[];
}

/** In longer texts only the first two ways are gone: the others take time that belongs to other sessions too. */
const mostLoosely = 512 * 1024;

/** At most so many; none when no strategy finds any. */
export function findText(text: string, sought: string, most: number): Found | undefined {
  const ways: readonly [Strategy, () => readonly Match[]][] = [
    ['exact', () => findExact(text, sought, most)],
    ['line-endings', () => findSqueezed(text, sought, most, false)],
    ['trailing-whitespace', () => findSqueezed(text, sought, most, true)],
    ['indentation', () => findIndented(text, sought, most)],
  ];
  for (const [strategy, find] of text.length > mostLoosely ? ways.slice(0, 2) : ways) {
    const matches = find();
    if (matches.length > 0) return { strategy, matches };
  }
  return undefined;
}

function findExact(text: string, sought: string, most: number): Match[] {
  // What begins with a bare LF would leave the CR before it behind.
  if (sought.startsWith('\n') && !sought.includes('\r') && text.includes('\r\n')) return [];
  return placesOf(text, sought, most).map((start) => ({ start, end: start + sought.length }));
}

function findSqueezed(text: string, sought: string, most: number, withoutBlanks: boolean): Match[] {
  // Blanks and breaks alone are everywhere once they are no longer told apart.
  const mustSay = withoutBlanks || (sought.includes('\r') && !text.includes('\r\n'));
  if (mustSay && !/\S/.test(sought)) return [];
  if (!withoutBlanks && !text.includes('\r\n') && !sought.includes('\r\n')) return [];
  const squeeze = withoutBlanks ? squeezeBlanks : squeezeBreaks;
  const whole = squeeze(text);
  const short = squeeze(sought).text;
  const endsLine = withoutBlanks && /[ \t]$/.test(sought);
  const places = placesOf(whole.text, short, most).filter(
    (start) => !endsLine || isLineEnd(whole.text, start + short.length),
  );
  const ends = whole.origins(places.map((start) => start + short.length - 1));
  const matches = whole.origins(places).map((start, i) => matchAt(text, start, (ends[i] as number) + 1));
  if (matches.length > 0 || !withoutBlanks) return matches;
  const last = short.slice(0, -1);
  if (!short.endsWith('\n') || whole.text.endsWith('\n') || !whole.text.endsWith(last)) return [];
  const [start = 0] = whole.origins([whole.text.length - last.length]);
  return [{ ...matchAt(text, start, text.length), withoutBreak: true }];
}

/** A line break is replaced whole. */
function matchAt(text: string, start: number, end: number): Match {
  return { start: text[start] === '\n' && text[start - 1] === '\r' ? start - 1 : start, end };
}

function isLineEnd(text: string, at: number): boolean {
  return at === text.length || text[at] === '\n';
}

/** With LF for CRLF. */
function squeezeBreaks(text: string): Squeezed {
  return {
    text: toLf(text),
    origins(places) {
      let left = 0;
      let next = text.indexOf('\r\n');
      return places.map((place) => {
        for (; next !== -1 && next - left <= place; next = text.indexOf('\r\n', next + 2)) left++;
        return place + left;
      });
    },
  };
}

/**
 * With LF for CRLF, and without the blanks at the end of lines. Walks back from each break, since an expression for it
 * can be made to take the square of the length.
 */
function squeezeBlanks(text: string): Squeezed {
  const pieces: string[] = [];
  const gaps: { readonly at: number; readonly left: number }[] = [];
  let length = 0;
  let from = 0;

  for (let line = 0; line <= text.length; ) {
    const found = text.indexOf('\n', line);
    const end = found === -1 ? text.length : found;
    let kept = found > line && text[found - 1] === '\r' ? found - 1 : end;
    while (kept > line && isBlank(text.charCodeAt(kept - 1))) kept--;
    if (kept < end) {
      pieces.push(text.slice(from, kept));
      length += kept - from;
      from = end;
      gaps.push({ at: length, left: end - length });
    }
    line = end + 1;
  }
  pieces.push(text.slice(from));

  return {
    text: pieces.join(''),
    origins(places) {
      let passed = 0;
      let left = 0;
      return places.map((place) => {
        for (let gap = gaps[passed]; gap !== undefined && gap.at <= place; gap = gaps[++passed]) left = gap.left;
        return place + left;
      });
    },
  };
}

function isBlank(code: number): boolean {
  return code === 32 || code === 9;
}

/**
 * Whole lines that are the sought ones but for one indentation that all of them have more, less, or otherwise. Blanks
 * before line breaks do not count.
 */
function findIndented(text: string, sought: string, most: number): Match[] {
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

/** Whether all lines that say something have so many characters more before it: told by numbers, without a look at the text. */
function areAllLonger(rests: Rests, leads: Int32Array, first: number, length: number, left: Left): boolean {
  if (length < 0) return false;
  for (const [i, rest] of rests.entries()) {
    left.comparisons--;
    if (rest !== undefined && (leads[first + i] as number) - rest.length !== length) return false;
  }
  return true;
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
