/** A line of a file near to a sought text. */
interface NearLine {
  readonly line: number;
  /** The line of the file and the sought line, from shortly before the first difference. Equal if there is none. */
  readonly has: string;
  readonly sought: string;
  /** Set if the two differ only in whitespace. */
  readonly whitespace?: WhitespaceDifference | undefined;
}

/** The first whitespace in which two lines differ. */
interface WhitespaceDifference {
  readonly column: number;
  readonly has: string;
  readonly sought: string;
}

interface NearestLines {
  readonly lines: readonly NearLine[];
  /** False if the file is too long to be searched whole. */
  readonly isComplete: boolean;
}

const maxSoughtLines = 200;
const maxPlaces = 3;
/** Lines shown of the nearest place; of each other place only the first that differs is shown. */
const maxShownLines = 5;
const maxLineLength = 200;
const maxExcerptLength = 100;
const maxComparedLength = 2000;
const minSimilarity = 0.6;

/** Limits of a search: it is only a hint for a person or a model, and must not take time from other sessions. */
const maxScannedLines = 2_000_000;
const maxKeyedCharacters = 8_000_000;
const maxPairedCharacters = 1_000_000;
/** The cost of a line, beside that of its characters. */
const lineCost = 40;

/** Whitespace and invisible characters. */
const spaces = /[\s\u00ad\u200b-\u200f\u2060\ufeff]+/g;

/** A place where the sought text might begin: the line `at` of the sought ones would be the line at `start`. */
interface Place {
  readonly line: number;
  readonly start: number;
  readonly at: number;
  readonly score: number;
}

/** Finds lines similar to the sought ones. */
export function findNearestLines(text: string, sought: string): NearestLines {
  const wanted = sought.split('\n', maxSoughtLines).map(dropReturn);
  const byVotes = findByVotes(text, wanted);
  const found = byVotes.places.length > 0 ? byVotes : findBySimilarity(text, wanted);
  const lines = found.places.flatMap((place, i) => compareAt(text, wanted, place, i === 0 ? maxShownLines : 1));
  return { lines, isComplete: found.isComplete };
}

/** Finds places by votes: a line that equals a sought one, but for whitespace, votes for where the whole would begin. */
function findByVotes(text: string, wanted: readonly string[]) {
  const keys = wanted.map(squeezeLine);
  // Short lines such as "}" are everywhere.
  const least = Math.min(4, Math.max(...keys.map(({ length }) => length)));
  const indexOf = new Map<string, number>();
  keys.forEach((key, i) => {
    if (key !== '' && key.length >= least && !indexOf.has(key)) indexOf.set(key, i);
  });
  const firsts = new Set([...indexOf.keys()].map((key) => key.charCodeAt(0)));
  const votes = new Map<number, Place>();
  const isComplete = visitLines(text, maxKeyedCharacters, (start, end, line) => {
    const cut = Math.min(end, start + maxLineLength);
    if (!firsts.has(text.charCodeAt(skipSpaces(text, start, cut)))) return 0;
    const key = squeezeLine(text.slice(start, cut));
    const at = indexOf.get(key);
    if (at === undefined || line < at) return lineCost + key.length;
    const score = key.length + (votes.get(line - at)?.score ?? 0);
    votes.set(line - at, { line: line - at, start, at, score });
    return lineCost + key.length;
  });
  return { places: pickBest(votes.values()), isComplete };
}

/** Finds lines that contain the longest sought one, but for whitespace, or share most letter pairs with it. */
function findBySimilarity(text: string, wanted: readonly string[]) {
  const keys = wanted.map(squeezeLine);
  const anchor = keys.reduce((a, b) => (b.length > a.length ? b : a), '');
  if (anchor.length < 3) return { places: [], isComplete: true };
  const at = keys.indexOf(anchor);
  const pairs = collectLetterPairs(anchor);
  const places: Place[] = [];
  const isComplete = visitLines(text, maxPairedCharacters, (start, end, line) => {
    if (end - start < anchor.length / 2 || line < at) return 0;
    const key = squeezeLine(text.slice(start, Math.min(end, start + maxLineLength)));
    const score = key.includes(anchor) ? 2 : compareLetterPairs(key, anchor, pairs);
    if (score >= minSimilarity) places.push({ line: line - at, start, at, score });
    return lineCost + key.length;
  });
  return { places: pickBest(places), isComplete };
}

/** Visits lines until the visits have taken their budget. Returns whether all were visited. */
function visitLines(text: string, budget: number, visit: (start: number, end: number, line: number) => number) {
  let left = budget;
  let start = 0;
  for (let line = 0; start < text.length && left > 0 && line < maxScannedLines; line++) {
    const found = text.indexOf('\n', start);
    const end = found === -1 ? text.length : found;
    left -= visit(start, end, line);
    start = end + 1;
  }
  return start >= text.length;
}

const squeezeLine = (line: string): string => line.slice(0, maxLineLength).replace(spaces, '');

const dropReturn = (line: string): string => (line.endsWith('\r') ? line.slice(0, -1) : line);

function skipSpaces(text: string, start: number, end: number): number {
  let at = start;
  while (at < end && isSpace(text[at] as string)) at++;
  return at;
}

/** Most characters are printable ASCII, for which one comparison suffices. */
function isSpace(character: string): boolean {
  if (character < '\u007f') return character === ' ' || (character >= '\t' && character <= '\r');
  return character.search(spaces) === 0;
}

function collectLetterPairs(text: string): Set<number> {
  const pairs = new Set<number>();
  for (let i = 1; i < text.length; i++) pairs.add(text.charCodeAt(i - 1) * 65_536 + text.charCodeAt(i));
  return pairs;
}

function compareLetterPairs(key: string, anchor: string, pairs: ReadonlySet<number>): number {
  if (key.length < anchor.length / 2 || key.length > anchor.length * 2) return 0;
  const others = collectLetterPairs(key);
  let shared = 0;
  for (const pair of others) if (pairs.has(pair)) shared++;
  return (2 * shared) / (pairs.size + others.size);
}

function pickBest(places: Iterable<Place>): Place[] {
  const top: Place[] = [];
  for (const place of places) {
    if (top.length === maxPlaces && place.score <= (top.at(-1) as Place).score) continue;
    top.push(place);
    top.sort((a, b) => b.score - a.score || a.line - b.line);
    if (top.length > maxPlaces) top.pop();
  }
  return top;
}

/** Compares the lines at a place with the sought ones: those from the line before the first difference on. */
function compareAt(text: string, wanted: readonly string[], place: Place, limit: number): NearLine[] {
  const lines = readLinesAt(text, place, wanted.length);
  const last = wanted.length - 1;
  // The sought text may begin and end within a line.
  const isSame = (i: number) =>
    (i === 0 && lines[i]?.endsWith(wanted[i] as string)) ||
    (i === last ? lines[i]?.startsWith(wanted[i] as string) : lines[i] === wanted[i]);
  const differs = Math.max(
    0,
    wanted.findIndex((_, i) => !isSame(i)),
  );
  const from = limit > 1 ? Math.max(0, differs - 1) : differs;
  return lines.slice(from, from + limit).map((has, i) => {
    const at = from + i;
    const sought = isSame(at) ? has : (wanted[at] as string);
    const whitespace = has === sought ? undefined : findWhitespaceDifference(has, sought, at === 0, at === last);
    return { line: place.line + at + 1, ...excerptLines(has, sought), whitespace };
  });
}

function readLinesAt(text: string, { start, at }: Place, count: number): string[] {
  let from = start;
  for (let i = 0; i < at; i++) from = from < 2 ? 0 : text.lastIndexOf('\n', from - 2) + 1;
  const lines: string[] = [];
  for (let found = 0; lines.length < count && found !== -1 && from <= text.length; from = found + 1) {
    found = text.indexOf('\n', from);
    lines.push(dropReturn(text.slice(from, found === -1 ? text.length : found)));
  }
  return lines;
}

/** Finds the first whitespace in which two lines differ; undefined if they differ in something else. */
function findWhitespaceDifference(
  has: string,
  sought: string,
  isFirst: boolean,
  isLast: boolean,
): WhitespaceDifference | undefined {
  const [ours, theirs] = [splitSpaces(has), splitSpaces(sought)];
  const rest = ours.letters.length - theirs.letters.length;
  const from = !isFirst ? 0 : isLast ? ours.letters.indexOf(theirs.letters) : rest;
  const isAligned = from >= 0 && ours.letters.startsWith(theirs.letters, from) && (isLast || from === rest);
  if (theirs.letters === '' || !isAligned) return undefined;
  for (const [i, run] of theirs.runs.entries()) {
    const own = ours.runs[from + i] as { text: string; column: number };
    // The sought text may begin and end within a line.
    const fits = (i === 0 && isFirst && own.text.endsWith(run.text)) || own.text === run.text;
    const isEnd = i === theirs.letters.length && isLast && own.text.startsWith(run.text);
    if (!fits && !isEnd) return { column: own.column, has: own.text, sought: run.text };
  }
  return undefined;
}

/** Splits a line into its visible characters and the whitespace before each and at the end. */
function splitSpaces(line: string) {
  const runs: { text: string; column: number }[] = [];
  let letters = '';
  let from = 0;
  const text = line.slice(0, maxComparedLength);
  for (let i = 0; i <= text.length; i++) {
    if (i < text.length && isSpace(text[i] as string)) continue;
    runs.push({ text: text.slice(from, i), column: from + 1 });
    letters += text[i] ?? '';
    from = i + 1;
  }
  return { letters, runs };
}

function excerptLines(has: string, sought: string) {
  let same = 0;
  while (same < has.length && has[same] === sought[same]) same++;
  const from = has !== sought && same > maxExcerptLength / 2 ? same - 20 : 0;
  return { has: excerptLine(has, from), sought: excerptLine(sought, from) };
}

function excerptLine(line: string, from: number): string {
  const end = from + maxExcerptLength;
  return `${from > 0 ? '…' : ''}${line.slice(from, end)}${line.length > end ? '…' : ''}`;
}
