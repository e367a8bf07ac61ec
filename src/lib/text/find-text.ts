import { toLf } from './line-endings.ts';

/** Limit of steps for a native search, which is fast but can take the product of both lengths. */
const maxNativeSteps = 2 ** 24;

export interface TextMatch {
  readonly start: number;
  readonly end: number;
  /** The file ends where the sought text has one more line break. */
  readonly withoutBreak?: true;
  /** The lines begin with `give` where the sought ones begin with `take`. */
  readonly indent?: { readonly take: string; readonly give: string };
}

/** The way a text was found, strictest first. None of them guesses: each defines in what the two may differ. */
export type Strategy = 'exact' | 'line-endings' | 'trailing-whitespace' | 'indentation';

export interface FoundText {
  readonly strategy: Strategy;
  /** In order; they may overlap. */
  readonly matches: readonly TextMatch[];
}

/** Longer texts use the first two strategies only; the others would take too much time from other sessions. */
const maxLooseLength = 512 * 1024;

/** Finds up to `limit` matches with the first strategy that finds any; undefined if none does. */
export function findText(text: string, sought: string, limit: number): FoundText | undefined {
  const strategies: readonly [Strategy, () => readonly TextMatch[]][] = [
    ['exact', () => findExact(text, sought, limit)],
    ['line-endings', () => findNormalized(text, sought, limit, false)],
    ['trailing-whitespace', () => findNormalized(text, sought, limit, true)],
    ['indentation', () => findIndented(text, sought, limit)],
  ];
  for (const [strategy, find] of text.length > maxLooseLength ? strategies.slice(0, 2) : strategies) {
    const matches = find();
    if (matches.length > 0) return { strategy, matches };
  }
  return undefined;
}

function findExact(text: string, sought: string, limit: number): TextMatch[] {
  // A match that begins with a bare LF would leave the CR before it behind.
  if (sought.startsWith('\n') && !sought.includes('\r') && text.includes('\r\n')) return [];
  return findOccurrences(text, sought, limit).map((start) => ({ start, end: start + sought.length }));
}

function findNormalized(text: string, sought: string, limit: number, withoutBlanks: boolean): TextMatch[] {
  // Blanks and breaks alone would match everywhere.
  const mustSay = withoutBlanks || (sought.includes('\r') && !text.includes('\r\n'));
  if (mustSay && !/\S/.test(sought)) return [];
  if (!withoutBlanks && !text.includes('\r\n') && !sought.includes('\r\n')) return [];
  const squeeze = withoutBlanks ? normalizeBlanks : normalizeBreaks;
  const whole = squeeze(text);
  const short = squeeze(sought).text;
  const endsLine = withoutBlanks && /[ \t]$/.test(sought);
  const places = findOccurrences(whole.text, short, limit).filter(
    (start) => !endsLine || isLineEnd(whole.text, start + short.length),
  );
  const ends = whole.toOriginal(places.map((start) => start + short.length - 1));
  const matches = whole.toOriginal(places).map((start, i) => createMatch(text, start, (ends[i] as number) + 1));
  if (matches.length > 0 || !withoutBlanks) return matches;
  const last = short.slice(0, -1);
  if (!short.endsWith('\n') || whole.text.endsWith('\n') || !whole.text.endsWith(last)) return [];
  const [start = 0] = whole.toOriginal([whole.text.length - last.length]);
  return [{ ...createMatch(text, start, text.length), withoutBreak: true }];
}

/** Creates a match that replaces a CRLF as a whole. */
function createMatch(text: string, start: number, end: number): TextMatch {
  return { start: text[start] === '\n' && text[start - 1] === '\r' ? start - 1 : start, end };
}

function isLineEnd(text: string, at: number): boolean {
  return at === text.length || text[at] === '\n';
}

/** A text without insignificant characters, and the mapping back to the original. */
interface NormalizedText {
  readonly text: string;
  /** Maps positions, in rising order, to positions in the original. */
  toOriginal(places: readonly number[]): number[];
}

function normalizeBreaks(text: string): NormalizedText {
  return {
    text: toLf(text),
    toOriginal(places) {
      let left = 0;
      let next = text.indexOf('\r\n');
      return places.map((place) => {
        for (; next !== -1 && next - left <= place; next = text.indexOf('\r\n', next + 2)) left++;
        return place + left;
      });
    },
  };
}

/** Also removes blanks at the end of lines. A regular expression for that could take quadratic time. */
function normalizeBlanks(text: string): NormalizedText {
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
    toOriginal(places) {
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

/** Limit of compared lines, after which the search stops: hostile texts can have endless candidates. */
const maxComparisons = 2_000_000;
/** Limit of compared characters of indentation. */
const maxIndentCharacters = 8_000_000;
const maxLines = 1_000_000;

interface SearchBudget {
  comparisons: number;
  characters: number;
}

type IndentRests = readonly (string | undefined)[];

interface IndentCandidate {
  /** The line of the text at which it begins. */
  readonly first: number;
  /** Index of the first sought line that is not blank. */
  readonly anchor: number;
  readonly length: number;
}

export interface LineSpan {
  readonly start: number;
  /** End without the line break. */
  readonly end: number;
  /** End with the line break. */
  readonly next: number;
}

/** Finds whole lines that differ from the sought ones by a common indentation and trailing blanks only. */
function findIndented(text: string, sought: string, limit: number): TextMatch[] {
  const wanted = toLf(sought).split('\n');
  const endsInBreak = wanted.length > 1 && wanted.at(-1) === '';
  if (endsInBreak) wanted.pop();
  const taken = findCommonIndent(wanted);
  if (taken === undefined) return [];
  const ids = new Map<string, number>();
  const run = wanted.map((line) => {
    const core = line.trim();
    const id = ids.get(core) ?? ids.size;
    ids.set(core, id);
    return id;
  });
  const longest = [...ids.keys()].reduce((a, b) => (b.length > a.length ? b : a));
  if (findOccurrences(text, longest, 1).length === 0) return [];
  const lines = splitLines(text);
  if (lines.length > maxLines) return [];
  const leads = new Int32Array(lines.length);
  const all = new Int32Array(lines.length);
  lines.forEach(({ start, end }, i) => {
    const line = text.slice(start, end);
    leads[i] = countLeadingBlanks(line);
    all[i] = ids.get(line.trim()) ?? -1;
  });
  // Lines with the same content differ only in what stands before it.
  const rests = wanted.map((line) =>
    line.trim() === '' ? undefined : line.slice(taken.length, countLeadingBlanks(line)),
  );
  const anchor = rests.findIndex((rest) => rest !== undefined);
  const matches: TextMatch[] = [];
  const left: SearchBudget = { comparisons: maxComparisons, characters: maxIndentCharacters };
  for (const first of findSequence(all, run, Number.POSITIVE_INFINITY)) {
    if (matches.length >= limit) break;
    const length = (leads[first + anchor] as number) - (rests[anchor] as string).length;
    const given = haveIndentLength(rests, leads, first, length, left)
      ? readCommonIndent(text, lines, rests, { first, anchor, length }, left)
      : undefined;
    // An incomplete list of matches would be taken for all of them.
    if (left.comparisons < 0 || left.characters < 0) return [];
    if (given === undefined) continue;
    const last = lines[first + wanted.length - 1] as LineSpan;
    matches.push({
      start: (lines[first] as LineSpan).start,
      end: endsInBreak ? last.next : last.end,
      ...(endsInBreak && last.next === last.end ? { withoutBreak: true } : {}),
      indent: trimCommonEnd(taken, given),
    });
  }
  return matches;
}

/** Whether all lines that are not blank have this indentation more than the sought ones. Compares lengths only. */
function haveIndentLength(
  rests: IndentRests,
  leads: Int32Array,
  first: number,
  length: number,
  left: SearchBudget,
): boolean {
  if (length < 0) return false;
  for (const [i, rest] of rests.entries()) {
    left.comparisons--;
    if (rest !== undefined && (leads[first + i] as number) - rest.length !== length) return false;
  }
  return true;
}

/** Reads the indentation that all lines have before that of the sought ones; undefined if they differ. */
function readCommonIndent(
  text: string,
  lines: readonly LineSpan[],
  rests: IndentRests,
  { first, anchor, length }: IndentCandidate,
  left: SearchBudget,
): string | undefined {
  const { start } = lines[first + anchor] as LineSpan;
  const given = text.slice(start, start + length);
  left.characters -= length;
  if (!/^[ \t]*$/.test(given)) return undefined;
  for (const [i, rest] of rests.entries()) {
    if (rest === undefined) continue;
    const from = (lines[first + i] as LineSpan).start;
    left.characters -= length + rest.length;
    if (left.characters < 0) return undefined;
    if (text.slice(from, from + length) !== given || !text.startsWith(rest, from + length)) return undefined;
  }
  return given;
}

const countLeadingBlanks = (line: string): number => line.length - line.trimStart().length;

function splitLines(text: string): LineSpan[] {
  const lines: LineSpan[] = [];
  for (let start = 0; start < text.length && lines.length <= maxLines; ) {
    const found = text.indexOf('\n', start);
    const next = found === -1 ? text.length : found + 1;
    const end = found === -1 ? next : found > start && text[found - 1] === '\r' ? found - 1 : found;
    lines.push({ start, end, next });
    start = next;
  }
  return lines;
}

/** Finds the indentation that all lines that are not blank share; undefined if all are blank. */
function findCommonIndent(lines: readonly string[]): string | undefined {
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

/** Removes the common end of two indentations, which needs no change. */
function trimCommonEnd(taken: string, given: string): { take: string; give: string } {
  let same = 0;
  while (same < taken.length && same < given.length && taken.at(-1 - same) === given.at(-1 - same)) same++;
  return { take: taken.slice(0, taken.length - same), give: given.slice(0, given.length - same) };
}

/** Finds where `run` begins in `text`, also overlapping, up to `limit` times. Takes linear time for any input. */
export function findOccurrences(text: string, run: string, limit: number): number[] {
  if (run === '' || run.length > text.length) return [];
  if (text.length * Math.min(run.length, text.length - run.length + 1) > maxNativeSteps) {
    return findSequence(toCodeUnits(text), toCodeUnits(run), limit);
  }
  const starts: number[] = [];
  for (let at = text.indexOf(run); at !== -1 && starts.length < limit; at = text.indexOf(run, at + 1)) starts.push(at);
  return starts;
}

/** The algorithm of Knuth, Morris and Pratt. */
export function findSequence(all: ArrayLike<number>, run: ArrayLike<number>, limit: number): number[] {
  const starts: number[] = [];
  if (run.length === 0) return starts;
  const fallback = new Int32Array(run.length);
  for (let i = 1, matched = 0; i < run.length; i++) {
    while (matched > 0 && run[i] !== run[matched]) matched = fallback[matched - 1] as number;
    if (run[i] === run[matched]) matched++;
    fallback[i] = matched;
  }
  for (let i = 0, matched = 0; i < all.length && starts.length < limit; i++) {
    while (matched > 0 && all[i] !== run[matched]) matched = fallback[matched - 1] as number;
    if (all[i] === run[matched]) matched++;
    if (matched === run.length) {
      starts.push(i - run.length + 1);
      matched = fallback[matched - 1] as number;
    }
  }
  return starts;
}

function toCodeUnits(text: string): Uint16Array {
  const bytes = Buffer.from(text, 'utf16le');
  return bytes.byteOffset % 2 === 0
    ? new Uint16Array(bytes.buffer, bytes.byteOffset, text.length)
    : new Uint16Array(Uint8Array.from(bytes).buffer);
}
