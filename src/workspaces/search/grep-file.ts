import { isUtf8 } from 'node:buffer';
import type { Expression } from './expression.ts';
import type { SearchBudget } from './search-budget.ts';

export const maxSearchedBytes = 10 * 1024 * 1024;

/** Replaces invalid bytes: no expression matches it, since no line contains it. */
const invalidCharacter = '\n';

interface DecodedText {
  readonly text: string;
  /** Returns the line as it is searched: invalid bytes match nothing. */
  toSearchable(line: string): string;
}

const isUtf16 = ([first, second]: Uint8Array): boolean =>
  (first === 0xff && second === 0xfe) || (first === 0xfe && second === 0xff);

interface FoundLine {
  readonly line: number;
  readonly text: string;
}

export interface FoundMatch extends FoundLine {
  /** The column of the first match, from 1. */
  readonly column: number;
  readonly before: readonly FoundLine[];
  readonly after: readonly FoundLine[];
}

/** Longer lines are not searched: they are not written by people. */
const maxLineLength = 65_536;
const maxShownLength = 500;
const linesPerCheck = 256;
/** The number of characters times the size of the expression: the most steps that a match can take. */
const maxWork = 2 ** 22;
const workPerCheck = 2 ** 20;

export interface GrepFileOptions {
  readonly expression: Expression;
  readonly contextLines: number;
  readonly limit: number;
  /** The remaining size of the result, reduced by each match. */
  readonly remaining: { characters: number };
  readonly budget: SearchBudget;
}

export async function grepFile(bytes: Uint8Array, options: GrepFileOptions): Promise<FoundMatch[]> {
  const { expression, contextLines, limit, remaining: room, budget } = options;
  if (!canMatch(bytes, expression)) return [];
  const file = decodeText(bytes);
  if (file === undefined) return [];
  const lines = createLineReader(file.text);
  const found: FoundMatch[] = [];
  let work = 0;
  for (let number = 1; lines.next(); number++) {
    if (number % linesPerCheck === 0 || work > workPerCheck) {
      work = 0;
      if (!(await budget.canContinue())) break;
    }
    const text = lines.current();
    if (text.length > Math.min(maxLineLength, maxWork / expression.size)) continue;
    work += text.length * expression.size;
    const at = expression.find(file.toSearchable(text));
    if (at === -1) continue;
    const { before, after } = lines.around(contextLines);
    const match = {
      line: number,
      column: at + 1,
      text: excerptLine(text, at),
      before: before.map((each, index) => ({ line: number - before.length + index, text: excerptLine(each, 0) })),
      after: after.map((each, index) => ({ line: number + 1 + index, text: excerptLine(each, 0) })),
    };
    found.push(match);
    room.characters -= [match, ...match.before, ...match.after].reduce((sum, each) => sum + each.text.length, 0);
    if (found.length >= limit || room.characters < 0) break;
  }
  return found;
}

/** Skips most files without decoding them. */
function canMatch(bytes: Uint8Array, { requiredText }: Expression): boolean {
  return (
    requiredText === undefined ||
    isUtf16(bytes) ||
    Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).includes(requiredText)
  );
}

/** Reads lines one by one, without a list: a file may contain only line breaks. */
function createLineReader(text: string) {
  let start = 0;
  let end = -1;
  return {
    next(): boolean {
      start = end + 1;
      if (start >= text.length) return false;
      const found = text.indexOf('\n', start);
      end = found === -1 ? text.length : found;
      return true;
    },
    current: () => text.slice(start, end),
    around(count: number) {
      const before: string[] = [];
      for (let to = start - 1; to >= 0 && before.length < count; ) {
        const from = text.lastIndexOf('\n', to - 1) + 1;
        before.unshift(text.slice(to === 0 ? 0 : from, to));
        to = to === 0 ? -1 : from - 1;
      }
      const after: string[] = [];
      for (let from = end + 1; from < text.length && after.length < count; ) {
        const found = text.indexOf('\n', from);
        const to = found === -1 ? text.length : found;
        after.push(text.slice(from, to));
        from = to + 1;
      }
      return { before, after };
    },
  };
}

/** Cuts a long line to the part around the match. */
function excerptLine(line: string, at: number): string {
  const text = line.endsWith('\r') ? line.slice(0, -1) : line;
  if (text.length <= maxShownLength) return text;
  const from = Math.max(0, Math.min(at - 100, text.length - maxShownLength));
  // A surrogate pair is kept whole or removed.
  const part = text.slice(from, from + maxShownLength).replace(/^[\udc00-\udfff]|[\ud800-\udbff]$/g, '');
  return `${from > 0 ? '…' : ''}${part}${from + maxShownLength < text.length ? '…' : ''}`;
}

/** Decodes a text file; undefined for binary files. The first bytes decide, else it is UTF-8. */
export function decodeText(bytes: Uint8Array): DecodedText | undefined {
  const [first, second] = bytes;
  if (first === 0xff && second === 0xfe) return asTextFile(new TextDecoder('utf-16le').decode(bytes));
  if (first === 0xfe && second === 0xff) return asTextFile(new TextDecoder('utf-16be').decode(bytes));
  if (bytes.includes(0)) return undefined;
  const text = new TextDecoder().decode(bytes);
  if (isUtf8(bytes)) return { text, toSearchable: (line) => line };
  return { text, toSearchable: (line) => line.replaceAll('\ufffd', invalidCharacter) };
}

function asTextFile(text: string): DecodedText | undefined {
  return text.includes('\0') ? undefined : { text, toSearchable: (line) => line };
}
