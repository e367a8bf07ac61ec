import type { LineSpan } from './find-text.ts';
import { toLf } from './line-endings.ts';

/**
 * A line that stands for code left out. A marker says "existing code" with an ellipsis: `// ... existing code ...`. A
 * placeholder probably means the same in other words: `# ... rest of code ...`.
 */
type OmissionKind = 'marker' | 'placeholder';

const ellipsis = /\.{3}|…/;
const existingCode = /\bexisting\s+code\b/i;
const maxOmissionLength = 500;
/** The beginnings of comments in many languages. */
const commentLeader = /^(?:(?:rem|dnl)\s|\/[/*]|[#;%!*'"@]|--|<!--|<%|\(\*|\{[-/#%{])/i;
const modifiers = '(?:(?:all|and|any|keep|my|of|other|our|previous|remainder|remaining|rest|the|this|your)\\s+)*';
const startsWithExistingCode = new RegExp(`^${modifiers}existing\\s+code\\b`, 'i');
const omissionWords = /\b(?:code|existing|omitted|remaining|rest of|unchanged)\b/i;
/** The text before "existing code" in a comment that follows code in the same line. */
const inlineLead = /(?:\/[/*]|[#;%]|--)\s*(?:\.{3}|…)[^.…]{0,40}$/;

/** Decides whether a line stands for code left out; undefined for ordinary lines. */
export function classifyOmission(line: string): OmissionKind | undefined {
  const text = line.trim();
  if (text.length > maxOmissionLength) return undefined;
  const [first, end] = findWords(text);
  const lead = text.slice(0, first);
  const words = text.slice(first);
  if (isQuoted(lead, text)) return undefined;
  const opens = ellipsis.test(lead);
  const closes = ellipsis.test(text.slice(end));
  if (opens && existingCode.test(words)) return 'marker';
  if (closes && lead !== '' && startsWithExistingCode.test(words)) return 'marker';
  if (hasInlineMarker(text)) return 'placeholder';
  if (!commentLeader.test(lead)) return undefined;
  // Without words it may be part of an example, and without an ellipsis a sentence about the code.
  return opens && omissionWords.test(words) ? 'placeholder' : undefined;
}

/** Finds the first and the end of the last letter or digit, except for the word that begins a comment in Basic or m4. */
function findWords(text: string): [number, number] {
  let first = /^(?:rem|dnl)\s/i.test(text) ? 4 : 0;
  while (first < text.length && !isWordCharacter(text[first] as string)) first++;
  let end = text.length;
  while (end > first && !isWordCharacter(text[end - 1] as string)) end--;
  return [first, end];
}

/** Regular expressions of classes of Unicode are slow, and most characters are in ASCII. */
function isWordCharacter(character: string): boolean {
  return character < '\u0080' ? /[0-9A-Za-z]/.test(character) : /[\p{L}\p{N}]/u.test(character);
}

/** Whether the line begins with a string or inline code: the quotation mark before the first word occurs again. */
function isQuoted(lead: string, text: string): boolean {
  const mark = /["'`]/.exec(lead)?.[0];
  if (mark === undefined || lead.includes(mark.repeat(3))) return false;
  return text.indexOf(mark) !== text.lastIndexOf(mark);
}

function hasInlineMarker(text: string): boolean {
  const before = text.slice(0, existingCode.exec(text)?.index ?? 0);
  if (before === '') return false;
  const code = before.slice(0, inlineLead.exec(before)?.index ?? 0);
  // With an odd number of quotation marks, the comment is part of a string.
  return code !== '' && ['"', "'", '`'].every((mark) => code.split(mark).length % 2 === 1);
}

interface OmissionLine extends LineSpan {
  readonly kind: OmissionKind;
}

/** Finds the lines that stand for code left out, among the lines that match `candidates`. */
function* findOmissions(text: string, candidates: RegExp): Generator<OmissionLine> {
  for (let match = candidates.exec(text); match !== null; match = candidates.exec(text)) {
    const span = readLine(text, text.lastIndexOf('\n', match.index) + 1);
    const kind = classifyOmission(text.slice(span.start, span.end));
    if (kind !== undefined) yield { ...span, kind };
    candidates.lastIndex = span.next;
  }
}

function readLine(text: string, start: number): LineSpan {
  const found = text.indexOf('\n', start);
  if (found === -1) return { start, end: text.length, next: text.length };
  return { start, end: found > start && text[found - 1] === '\r' ? found - 1 : found, next: found + 1 };
}

/** The lines of a content between two markers, or between a marker and the start or end of the content. */
interface ContentBlock {
  /** The line of the content at which it begins, after blank lines. */
  readonly line: number;
  /** The first and the last line are not blank. */
  readonly lines: readonly string[];
  readonly hasMarkerBefore: boolean;
  readonly hasMarkerAfter: boolean;
}

/** The reason why a content with markers was not applied. */
export interface MarkerRefusal {
  readonly kind:
    | 'no-blocks'
    | 'too-many-blocks'
    | 'placeholder'
    | 'marker-in-file'
    | 'anchor-missing'
    | 'anchor-repeated'
    | 'anchors-equal'
    | 'out-of-order'
    | 'marker-missing';
  /** The line of the content. */
  readonly line: number;
  readonly text: string;
  /** The end of the block at which the line stands. */
  readonly side: 'start' | 'end';
  /** Lines of the file: where the anchor is, or those that would be lost. */
  readonly fileLines: readonly number[];
}

export type MarkerOutcome =
  /** `lines` are those of the new text at which the blocks begin. */
  | { readonly kind: 'merged'; readonly text: string; readonly lines: readonly number[] }
  /** The content has no markers: it is that of the whole file. */
  | { readonly kind: 'whole' }
  | { readonly kind: 'refused'; readonly refusal: MarkerRefusal };

export const maxBlocks = 100;
const maxOmissions = 1000;
/** A repeated anchor is reported with so many of its lines. */
const maxReportedLines = 11;

/** Whether a content has a line that keeps the lines of a file. */
export function hasMarkers(content: string): boolean {
  for (const { kind } of findOmissions(content, /existing\s+code/gi)) if (kind === 'marker') return true;
  return false;
}

/**
 * Applies a content with markers to the text of a file. A block between two markers starts and ends with a line that
 * the file has exactly once; the lines between the two are replaced. All lines that no block covers are kept.
 */
export function mergeExistingCode(text: string, content: string): MarkerOutcome {
  const omissions: OmissionLine[] = [];
  for (const omission of findOmissions(content, /\.{3}|…|existing\s+code/gi))
    if (omissions.push(omission) > maxOmissions) return refuse('too-many-blocks', 1);
  if (omissions.length === 0) return { kind: 'whole' };
  const markers = omissions.filter(({ kind }) => kind === 'marker');
  const placeholders = omissions
    .filter(({ kind }) => kind === 'placeholder')
    .map(({ start, end }) => ({ start, line: content.slice(start, end) }));
  const blocks = markers.length === 0 ? [] : splitBlocks(content, markers);
  const anchors = blocks.flatMap(({ lines }) => [lines[0] as string, lines.at(-1) as string]);
  const file = locateLines(text, [...anchors, ...placeholders.map(({ line }) => line)]);

  // A line that the file has already is meant as it is, and an empty file has nothing to lose.
  const isEmpty = file.first.line === 0;
  const placeholder = isEmpty
    ? undefined
    : placeholders.find(({ line }) => file.found.get(cutLine(line))?.length === 0);
  if (placeholder !== undefined)
    return refuse('placeholder', countBreaks(content, 0, placeholder.start) + 1, { text: placeholder.line });
  if (markers.length === 0) return { kind: 'whole' };
  if (blocks.length === 0) return refuse('no-blocks', 1);
  if (blocks.length > maxBlocks) return refuse('too-many-blocks', (blocks[maxBlocks] as ContentBlock).line);
  for (const { kind, start } of findOmissions(text, /existing\s+code/gi))
    if (kind === 'marker') return refuse('marker-in-file', 1, { fileLines: [countBreaks(text, 0, start) + 1] });
  return replaceBlocks(text, blocks, file);
}

function refuse(
  kind: MarkerRefusal['kind'],
  line: number,
  details: Partial<MarkerRefusal> = {},
): { kind: 'refused'; refusal: MarkerRefusal } {
  return { kind: 'refused', refusal: { text: '', side: 'start', fileLines: [], ...details, kind, line } };
}

function splitBlocks(content: string, markers: readonly LineSpan[]): ContentBlock[] {
  const blocks: ContentBlock[] = [];
  let line = 1;
  let from = 0;
  for (const [i, to] of [...markers.map(({ start }) => start), content.length].entries()) {
    const lines = toLf(content.slice(from, to)).split('\n');
    const first = lines.findIndex((each) => cutLine(each) !== '');
    const last = lines.findLastIndex((each) => cutLine(each) !== '');
    const sides = { hasMarkerBefore: i > 0, hasMarkerAfter: i < markers.length };
    if (first !== -1) blocks.push({ line: line + first, lines: lines.slice(first, last + 1), ...sides });
    const next = markers[i]?.next ?? to;
    line += countBreaks(content, from, next);
    from = next;
  }
  return blocks;
}

function countBreaks(text: string, from: number, to: number): number {
  let count = 0;
  for (let at = text.indexOf('\n', from); at !== -1 && at < to; at = text.indexOf('\n', at + 1)) count++;
  return count;
}

/** Removes blanks at the end of a line: lines that differ only in them count as equal. */
const cutLine = (line: string): string => line.slice(0, findCut(line, 0, line.length));

function findCut(text: string, start: number, end: number): number {
  let cut = end;
  while (cut > start && isBlank(text.charCodeAt(cut - 1))) cut--;
  return cut;
}

const isBlank = (code: number): boolean => code === 32 || code === 9 || code === 13;

interface FileLine extends LineSpan {
  readonly line: number;
}

interface LocatedLines {
  /** The places of each sought line, up to a few. */
  readonly found: ReadonlyMap<string, readonly FileLine[]>;
  /** The first and the last line of the file that are not blank. Line 0 if there is none. */
  readonly first: FileLine;
  readonly last: FileLine;
}

/** Finds whole lines in one pass, however many are sought. */
function locateLines(text: string, sought: readonly string[]): LocatedLines {
  const found = new Map<string, FileLine[]>(sought.map((line) => [cutLine(line), []]));
  const lengths = new Set([...found.keys()].map(({ length }) => length));
  let first: FileLine | undefined;
  let [lastStart, lastLine] = [0, 0];
  for (let start = 0, line = 1; start < text.length; line++) {
    const lineBreak = text.indexOf('\n', start);
    const next = lineBreak === -1 ? text.length : lineBreak + 1;
    const cut = findCut(text, start, lineBreak === -1 ? next : lineBreak);
    if (cut > start) {
      first ??= { ...readLine(text, start), line };
      lastStart = start;
      lastLine = line;
      const places = lengths.has(cut - start) ? found.get(text.slice(start, cut)) : undefined;
      if (places !== undefined && places.length < maxReportedLines) places.push({ ...readLine(text, start), line });
    }
    start = next;
  }
  const last = { ...readLine(text, lastStart), line: lastLine };
  return { found, first: first ?? last, last };
}

/** A replaced part of a file. The lines at which a block is anchored stay as they are in the file. */
interface BlockChange {
  readonly kind: 'replaced';
  readonly from: number;
  readonly to: number;
  readonly text: string;
  /** The first and the last line of the file that the block covers. */
  readonly covers: readonly [number, number];
}

type BlockOutcome = BlockChange | { readonly kind: 'refused'; readonly refusal: MarkerRefusal };

function replaceBlocks(text: string, blocks: readonly ContentBlock[], file: LocatedLines): MarkerOutcome {
  const pieces: string[] = [];
  const lines: number[] = [];
  let from = 0;
  let covered = 0;
  let addedLines = 0;
  for (const block of blocks) {
    const change = placeBlock(text, block, file);
    if (change.kind === 'refused') return change;
    const [first, last] = change.covers;
    if (first <= covered)
      return refuse('out-of-order', block.line, { text: block.lines[0] as string, fileLines: [first, covered] });
    pieces.push(text.slice(from, change.from), change.text);
    lines.push(first + addedLines);
    addedLines += countBreaks(change.text, 0, change.text.length) - countBreaks(text, change.from, change.to);
    from = change.to;
    covered = last;
  }
  return { kind: 'merged', text: [...pieces, text.slice(from)].join(''), lines };
}

function placeBlock(text: string, block: ContentBlock, file: LocatedLines): BlockOutcome {
  const { line, lines, hasMarkerBefore, hasMarkerAfter } = block;
  const start = findAnchor(block, 'start', file);
  const end = findAnchor(block, 'end', file);
  if (hasMarkerBefore && 'kind' in start) return start;
  if (hasMarkerAfter && 'kind' in end) return end;
  const isAnchored =
    !('kind' in start || 'kind' in end) &&
    (hasMarkerBefore || start.line === file.first.line) &&
    (hasMarkerAfter || end.line === file.last.line);
  if (isAnchored) return replaceBetween(text, block, start, end);

  // Without a marker the block reaches to the start or end of the file. Then it may only add lines there: more often
  // than not the marker was forgotten, and the lines of the file must not be lost.
  const [from, to] = [hasMarkerBefore ? start : file.first, hasMarkerAfter ? end : file.last] as [FileLine, FileLine];
  const side = hasMarkerBefore ? 'end' : 'start';
  const at = side === 'start' ? line : line + lines.length - 1;
  const covers = [from.line, to.line] as const;
  if (!keepsLines(lines, text, from, to)) return refuse('marker-missing', at, { side, fileLines: covers });
  const ending = readLineEnding(text, from);
  return side === 'start'
    ? { kind: 'replaced', from: from.start, to: to.start, text: joinLines(lines.slice(0, -1), '', ending), covers }
    : { kind: 'replaced', from: from.end, to: to.end, text: joinLines(lines.slice(1), ending, ''), covers };
}

function findAnchor({ line, lines }: ContentBlock, side: MarkerRefusal['side'], { found }: LocatedLines) {
  const text = (side === 'start' ? lines[0] : lines.at(-1)) as string;
  const places = found.get(cutLine(text)) ?? [];
  const [place] = places;
  if (place !== undefined && places.length === 1) return place;
  const fileLines = places.map((each) => each.line);
  const at = side === 'start' ? line : line + lines.length - 1;
  return refuse(place === undefined ? 'anchor-missing' : 'anchor-repeated', at, { text, fileLines, side });
}

/** Replaces the lines between two anchors. */
function replaceBetween(text: string, { line, lines }: ContentBlock, start: FileLine, end: FileLine): BlockOutcome {
  const covers = [start.line, end.line] as const;
  if (end.line < start.line) {
    const last = { text: lines.at(-1) as string, fileLines: [end.line, start.line], side: 'end' } as const;
    return refuse('out-of-order', line + lines.length - 1, last);
  }
  if (start.line === end.line) {
    if (lines.length > 1) return refuse('anchors-equal', line, { text: lines[0] as string, fileLines: covers });
    return { kind: 'replaced', from: start.end, to: start.end, text: '', covers };
  }
  const ending = readLineEnding(text, start);
  const between = ending + joinLines(lines.slice(1, -1), '', ending);
  return { kind: 'replaced', from: start.end, to: end.start, text: between, covers };
}

const joinLines = (lines: readonly string[], before: string, after: string): string =>
  lines.map((line) => before + line + after).join('');

/** Whether the lines contain those of a part of the file that are not blank, in the same order. */
function keepsLines(lines: readonly string[], text: string, from: FileLine, to: FileLine): boolean {
  let at = 0;
  for (let start = from.start; start <= to.start; ) {
    const { end, next } = readLine(text, start);
    const line = cutLine(text.slice(start, end));
    while (line !== '' && at < lines.length && cutLine(lines[at] as string) !== line) at++;
    if (line !== '' && at++ === lines.length) return false;
    start = next;
  }
  return true;
}

/** Reads the line break at the end of a line; of the line before if it is the last one. */
function readLineEnding(text: string, { start, end, next }: LineSpan): string {
  if (next > end) return text.slice(end, next);
  return text[start - 2] === '\r' ? '\r\n' : '\n';
}
