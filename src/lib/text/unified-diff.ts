import { diffLines, type Hunk, splitLines } from './line-diff.ts';
import { countLines } from './line-endings.ts';

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

const escapes: Readonly<Record<string, string>> = { '\n': '\\n', '\t': '\\t', '\r': '\\r', '"': '\\"', '\\': '\\\\' };
/** Characters that end a line, are invisible, or change the text direction. */
const unsafeCharacter = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}"\\]/u;

/** Quotes a file name as git does, if it has such characters. */
export function quoteFileName(name: string): string {
  if (!unsafeCharacter.test(name)) return name;
  const escaped = name.replace(new RegExp(unsafeCharacter, 'gu'), (character) => {
    const bytes = [...Buffer.from(character)].map((byte) => `\\${byte.toString(8).padStart(3, '0')}`);
    return escapes[character] ?? bytes.join('');
  });
  return `"${escaped}"`;
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
