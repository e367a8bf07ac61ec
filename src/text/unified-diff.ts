import { formatPatch, type StructuredPatchHunk, structuredPatch } from 'diff';
import { countLines } from './line-endings.ts';

export interface Diff {
  /** Null where it would be longer than is of use to anybody. */
  readonly text: string | null;
  readonly added: number;
  readonly removed: number;
}

const context = 3;
/** Beyond these the parts that differ are told as wholly other, or only counted: finding out more takes their product. */
const mostCompared = 1_000_000;
const mostChanges = 1000;
const mostWhole = 65_536;
const mostText = 262_144;

/** What differs, as patches have it. Works only on the part between the lines that are alike at both ends. */
export function unifiedDiff(path: string, before: string, after: string): Diff {
  if (before === after) return { text: '', added: 0, removed: 0 };
  const head = alikeAtStart(before, after);
  const tail = alikeAtEnd(before, after, head);
  const old = before.slice(head, before.length - tail);
  const now = after.slice(head, after.length - tail);
  const hunks = old.length + now.length > mostCompared ? undefined : (compared(old, now) ?? exchanged(old, now));
  if (hunks === undefined) return { text: null, added: countLines(now), removed: countLines(old) };
  const count = (sign: string) => hunks.flatMap(({ lines }) => lines).filter((line) => line.startsWith(sign)).length;
  const skipped = countLines(before.slice(0, head));
  const placed = hunks.map((hunk) => ({
    ...hunk,
    oldStart: hunk.oldStart + skipped,
    newStart: hunk.newStart + skipped,
  }));
  const files = { oldFileName: `a/${path}`, newFileName: `b/${path}`, oldHeader: undefined, newHeader: undefined };
  const text = formatPatch(
    { ...files, hunks: placed },
    { includeIndex: false, includeUnderline: false, includeFileHeaders: true },
  );
  return { text: text.length > mostText ? null : text, added: count('+'), removed: count('-') };
}

function compared(old: string, now: string): StructuredPatchHunk[] | undefined {
  return structuredPatch('', '', old, now, undefined, undefined, { context, maxEditLength: mostChanges })?.hunks;
}

function exchanged(old: string, now: string): StructuredPatchHunk[] | undefined {
  if (old.length + now.length > mostWhole) return undefined;
  const lines = [...marked(old, '-'), ...marked(now, '+')];
  const oldLines = countLines(old);
  const newLines = countLines(now);
  return [{ oldStart: 1, newStart: 1, oldLines, newLines, lines }];
}

function marked(text: string, sign: string): string[] {
  if (text === '') return [];
  const lines = text.split('\n');
  const unfinished = lines.pop() as string;
  const whole = lines.map((line) => sign + line);
  return unfinished === '' ? whole : [...whole, sign + unfinished, '\\ No newline at end of file'];
}

/** The length of what both begin with, whole lines only, but for the lines that are shown around a difference. */
function alikeAtStart(a: string, b: string): number {
  const most = Math.min(a.length, b.length);
  let same = 0;
  while (same < most && a.charCodeAt(same) === b.charCodeAt(same)) same++;
  let start = same;
  for (let lines = 0; lines <= context && start > 0; lines++) {
    const last = start - (lines === 0 ? 1 : 2);
    start = last < 0 ? 0 : a.lastIndexOf('\n', last) + 1;
  }
  return start;
}

function alikeAtEnd(a: string, b: string, head: number): number {
  const most = Math.min(a.length, b.length) - head;
  let same = 0;
  while (same < most && a.charCodeAt(a.length - 1 - same) === b.charCodeAt(b.length - 1 - same)) same++;
  let end = a.length - same;
  for (let lines = 0; lines <= context && end < a.length; lines++) {
    const found = a.indexOf('\n', end);
    end = found === -1 ? a.length : found + 1;
  }
  return a.length - end;
}
