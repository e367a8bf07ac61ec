import { replaceHidden } from './hidden-characters.ts';
import { countLines } from './line-endings.ts';

/** Lines `[start, end)` of the new text that replace lines `[from, to)` of the old one. */
interface Hunk {
  readonly from: number;
  readonly to: number;
  readonly start: number;
  readonly end: number;
}

/** Beyond this many differing lines the search for the shortest diff costs more than it is worth. */
const maxSteps = 1500;
/** Each step may visit every line, so very long texts get fewer steps. */
const maxWork = 20_000_000;

/** Splits a text into lines with their line breaks, so that a last line without one differs. */
export function splitLines(text: string): string[] {
  return text === '' ? [] : (text.match(/[^\n]*\n|[^\n]+$/g) as string[]);
}

/** Finds the shortest list of differences, in order (Myers). If the texts differ too much, returns one hunk. */
export function diffLines(old: readonly string[], fresh: readonly string[]): Hunk[] {
  let head = 0;
  while (head < old.length && head < fresh.length && old[head] === fresh[head]) head++;
  let tail = 0;
  const limit = Math.min(old.length, fresh.length) - head;
  while (tail < limit && old[old.length - 1 - tail] === fresh[fresh.length - 1 - tail]) tail++;
  const [from, to] = [head, old.length - tail];
  const [start, end] = [head, fresh.length - tail];
  if (from === to && start === end) return [];
  if (from === to || start === end) return [{ from, to, start, end }];
  const path = findShortestPath(numberLines(old.slice(from, to), fresh.slice(start, end)));
  return path === undefined ? [{ from, to, start, end }] : toHunks(path, from, start);
}

interface NumberedLines {
  readonly a: Int32Array;
  readonly b: Int32Array;
}

/** Gives equal lines equal numbers, which compare faster than long texts. */
function numberLines(old: readonly string[], fresh: readonly string[]): NumberedLines {
  const numbers = new Map<string, number>();
  const number = (line: string): number => {
    const known = numbers.get(line) ?? numbers.size;
    numbers.set(line, known);
    return known;
  };
  return { a: Int32Array.from(old, number), b: Int32Array.from(fresh, number) };
}

type PathStep = readonly [x: number, y: number];

/** Finds the corners of the shortest edit path, last one first; undefined if it is too long. */
function findShortestPath({ a, b }: NumberedLines): PathStep[] | undefined {
  const [n, m] = [a.length, b.length];
  const limit = Math.min(n + m, maxSteps, Math.floor(maxWork / (n + m)));
  const reach = new Int32Array(2 * limit + 3);
  const offset = limit + 1;
  const trace: Int32Array[] = [];
  for (let d = 0; d <= limit; d++) {
    for (let k = -d; k <= d; k += 2) {
      const down = k === -d || (k !== d && valueAt(reach, offset + k - 1) < valueAt(reach, offset + k + 1));
      let x = down ? valueAt(reach, offset + k + 1) : valueAt(reach, offset + k - 1) + 1;
      let y = x - k;
      while (x < n && y < m && a[x] === b[y]) {
        x++;
        y++;
      }
      reach[offset + k] = x;
      if (x >= n && y >= m) return tracePath(trace, d, n, m);
    }
    trace.push(reach.slice(offset - d - 1, offset + d + 2));
  }
  return undefined;
}

function tracePath(trace: readonly Int32Array[], steps: number, n: number, m: number): PathStep[] {
  const path: PathStep[] = [[n, m]];
  let [x, y] = [n, m];
  for (let d = steps; d > 0; d--) {
    const reach = trace[d - 1] as Int32Array;
    const reached = (k: number): number => valueAt(reach, k + d);
    const k = x - y;
    const down = k === -d || (k !== d && reached(k - 1) < reached(k + 1));
    const before = down ? k + 1 : k - 1;
    x = reached(before);
    y = x - before;
    // Where the single step of this round ended, and where it began.
    path.push(down ? [x, y + 1] : [x + 1, y], [x, y]);
  }
  return path;
}

function valueAt(array: Int32Array, index: number): number {
  return array[index] ?? -1;
}

function toHunks(path: readonly PathStep[], from: number, start: number): Hunk[] {
  const hunks: { from: number; to: number; start: number; end: number }[] = [];
  for (let i = path.length - 1; i > 0; i -= 2) {
    const [[x, y], [toX, toY]] = [path[i] as PathStep, path[i - 1] as PathStep];
    const last = hunks.at(-1);
    if (last !== undefined && last.to === from + x && last.end === start + y) {
      last.to = from + toX;
      last.end = start + toY;
    } else hunks.push({ from: from + x, to: from + toX, start: start + y, end: start + toY });
  }
  return hunks;
}

/** Merges two changed versions of a text; undefined if both changed the same or adjacent lines differently. */
export function mergeLines(base: string, ours: string, theirs: string): string | undefined {
  const [old, one, other] = [splitLines(base), splitLines(ours), splitLines(theirs)];
  const [mine, yours] = [diffLines(old, one), diffLines(old, other)];
  // Collects slices, not lines: a file may have more lines than a call can have arguments.
  const merged: string[][] = [];
  let [i, j, done] = [0, 0, 0];
  while (i < mine.length || j < yours.length) {
    const [first, last] = [i, j];
    let [from, to] = [Number.POSITIVE_INFINITY, -1];
    // Overlapping and adjacent hunks form one region.
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
    const a = takeRegion(one, mine.slice(first, i), from, to, countShift(mine, first));
    const b = takeRegion(other, yours.slice(last, j), from, to, countShift(yours, last));
    if (last === j) merged.push(a);
    else if (first === i) merged.push(b);
    else if (a.join('') === b.join('')) merged.push(a);
    else return undefined;
  }
  merged.push(old.slice(done));
  return merged.flat().join('');
}

/** Returns how far lines are shifted in the new text before this hunk. */
function countShift(hunks: readonly Hunk[], index: number): number {
  const before = hunks[index - 1];
  return before === undefined ? 0 : before.end - before.to;
}

/** Returns the lines that replace `[from, to)` of the old text. */
function takeRegion(
  lines: readonly string[],
  hunks: readonly Hunk[],
  from: number,
  to: number,
  shift: number,
): string[] {
  const last = hunks.at(-1);
  const after = last === undefined ? shift : last.end - last.to;
  return lines.slice(from + shift, to + after);
}

interface UnifiedHunks {
  /** The hunks, as `git apply` and `patch` read them, without the lines that name the files. */
  readonly text: string;
  readonly added: number;
  readonly removed: number;
}

interface TextDiff extends Omit<UnifiedHunks, 'text'> {
  /** Null if it would be too long to be useful. */
  readonly text: string | null;
}

const contextLines = 3;
/** Beyond these limits lines are only counted. */
const maxComparedCharacters = 1_000_000;
const maxLines = 100_000;
const maxDiffLength = 262_144;

/** Formats the change of a file, with its name, for display. */
export function formatFileDiff(path: string, before: string, after: string): TextDiff {
  if (before === after) return { text: '', added: 0, removed: 0 };
  const { old, fresh, skipped } = trimCommonLines(before, after);
  const [added, removed] = [countLines(fresh), countLines(old)];
  if (old.length + fresh.length > maxComparedCharacters || added + removed > maxLines)
    return { text: null, added, removed };
  const { text, ...counted } = formatHunks(old, fresh, skipped);
  const whole = `--- ${quoteFileName(`a/${path}`)}\n+++ ${quoteFileName(`b/${path}`)}\n${text}`;
  return { text: whole.length > maxDiffLength ? null : whole, ...counted };
}

export function formatUnifiedDiff(before: string, after: string): UnifiedHunks {
  const { old, fresh, skipped } = trimCommonLines(before, after);
  return formatHunks(old, fresh, skipped);
}

/** Removes the common whole lines at both ends: in large files, changes are mostly small. */
function trimCommonLines(before: string, after: string) {
  const head = countCommonStart(before, after);
  const tail = countCommonEnd(before, after, head);
  return {
    old: before.slice(head, before.length - tail),
    fresh: after.slice(head, after.length - tail),
    skipped: countLines(before.slice(0, head)),
  };
}

function formatHunks(before: string, after: string, skipped: number): UnifiedHunks {
  const [old, fresh] = [splitLines(before), splitLines(after)];
  const hunks = diffLines(old, fresh);
  const added = hunks.reduce((sum, { start, end }) => sum + end - start, 0);
  const removed = hunks.reduce((sum, { from, to }) => sum + to - from, 0);
  const text = groupHunks(hunks).map((group) => formatGroup(old, fresh, group, skipped));
  return { text: text.join(''), added, removed };
}

/** Groups hunks whose context would overlap. */
function groupHunks(hunks: readonly Hunk[]): Hunk[][] {
  const groups: Hunk[][] = [];
  for (const hunk of hunks) {
    const before = groups.at(-1)?.at(-1);
    if (before !== undefined && hunk.from - before.to <= 2 * contextLines) groups.at(-1)?.push(hunk);
    else groups.push([hunk]);
  }
  return groups;
}

function formatGroup(
  old: readonly string[],
  fresh: readonly string[],
  hunks: readonly Hunk[],
  skipped: number,
): string {
  const [first, last] = [hunks[0] as Hunk, hunks.at(-1) as Hunk];
  const lead = Math.min(contextLines, first.from);
  const trail = Math.min(contextLines, old.length - last.to);
  const lines: string[] = [];
  const addLines = (sign: string, from: readonly string[], start: number, end: number): void => {
    for (const line of from.slice(start, end)) {
      lines.push(line.endsWith('\n') ? sign + line : `${sign}${line}\n\\ No newline at end of file\n`);
    }
  };
  let done = first.from - lead;
  for (const { from, to, start, end } of hunks) {
    addLines(' ', old, done, from);
    addLines('-', old, from, to);
    addLines('+', fresh, start, end);
    done = to;
  }
  addLines(' ', old, done, last.to + trail);
  const before = formatRange('-', skipped + first.from - lead, skipped + last.to + trail);
  const after = formatRange('+', skipped + first.start - lead, skipped + last.end + trail);
  return `@@ ${before} ${after} @@\n${lines.join('')}`;
}

/** Formats a range of lines, counted from one unless it is empty. */
function formatRange(sign: string, start: number, end: number): string {
  const count = end - start;
  const first = count === 0 ? start : start + 1;
  return count === 1 ? `${sign}${first}` : `${sign}${first},${count}`;
}

const escapes: Readonly<Record<string, string>> = { '\n': '\\n', '\t': '\\t', '\r': '\\r' };

/** Quotes a file name as git does, if it has characters that end a line, are invisible, or change the text direction. */
export function quoteFileName(name: string): string {
  const escaped = replaceHidden(name.replace(/["\\]/g, '\\$&'), (character) => {
    const bytes = [...Buffer.from(character)].map((byte) => `\\${byte.toString(8).padStart(3, '0')}`);
    return escapes[character] ?? bytes.join('');
  });
  return escaped === name ? name : `"${escaped}"`;
}

/** Returns the length of the common start, without the context lines before the first difference. */
function countCommonStart(a: string, b: string): number {
  const limit = Math.min(a.length, b.length);
  let same = 0;
  while (same < limit && a.charCodeAt(same) === b.charCodeAt(same)) same++;
  let start = same;
  for (let lines = 0; lines <= contextLines && start > 0; lines++) {
    const last = start - (lines === 0 ? 1 : 2);
    start = last < 0 ? 0 : a.lastIndexOf('\n', last) + 1;
  }
  return start;
}

function countCommonEnd(a: string, b: string, head: number): number {
  const limit = Math.min(a.length, b.length) - head;
  let same = 0;
  while (same < limit && a.charCodeAt(a.length - 1 - same) === b.charCodeAt(b.length - 1 - same)) same++;
  let end = a.length - same;
  for (let lines = 0; lines <= contextLines && end < a.length; lines++) {
    const found = a.indexOf('\n', end);
    end = found === -1 ? a.length : found + 1;
  }
  return a.length - end;
}
