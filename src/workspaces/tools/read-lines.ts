import { createHash } from 'node:crypto';
import { decodeText, type Encoding } from '../../lib/text/encoding.ts';
import { classifyLineEnding, type LineEnding, scanLines } from '../../lib/text/line-endings.ts';
import type { OpenedFile } from '../backends/backend.ts';
import { maxWholeBytes, readChunks } from './file-chunks.ts';

/**
 * Known offsets of lines in large files, so that reading on does not count lines from the start again. An offset is
 * valid for one version of a file only.
 */
export interface LineOffsets {
  /** The last known offset that is not after the line. */
  before(file: string, line: number): LineOffset | undefined;
  keep(file: string, offset: LineOffset): void;
}

const maxFiles = 64;
const maxOffsets = 32;

export interface LineRange {
  readonly startLine: number;
  readonly endLine: number;
  readonly maxBytes: number;
}

/** The byte offset at which a line begins. */
export interface LineOffset {
  readonly line: number;
  readonly offset: number;
}

export interface LineReadResult {
  /** Undefined when the bytes are no text. */
  readonly content: string | undefined;
  /** The last line in `content`; the one before `startLine` when there is none. */
  readonly endLine: number;
  readonly cutLines: readonly number[];
  readonly totalLines: number | null;
  /** The line after the last one, unless the file ends there. */
  readonly next: LineOffset | undefined;
  /** `maxBytes` was reached before the last line asked for. */
  readonly truncated: boolean;
  /** The offset at which reading stopped before it reached the requested lines. */
  readonly givenUp: LineOffset | undefined;
  readonly lineEnding: LineEnding;
  readonly sha256: string | null;
}

/** Longer lines are cut, so that a few of them do not crowd out all others. */
export const maxLineLength = 2000;
/** The bytes that so many characters can have. */
const maxLineBytes = maxLineLength * 4;

/** Limits what one answer reads: a sparse file may have many terabytes. */
const maxScannedBytes = 2 * 1024 ** 3;

/** Adjacent short lines, or one long line that may have to be cut. */
interface LineStretch {
  readonly start: number;
  readonly line: number;
  readonly isLong: boolean;
  end: number;
}

/** Reads lines of a file without keeping more of it than asked for. Counting begins at a known offset. */
export async function readLines(
  file: OpenedFile,
  encoding: Encoding,
  { startLine, endLine, maxBytes }: LineRange,
  from: LineOffset = { line: 1, offset: encoding.mark.length },
  maxBytesScanned = maxScannedBytes,
): Promise<LineReadResult> {
  const isWhole = file.facts.bytes <= maxWholeBytes;
  const begin = isWhole ? { line: 1, offset: encoding.mark.length } : from;
  const stretches: LineStretch[] = [];
  let { line, offset: lineStart } = begin;
  let used = 0;
  let last = startLine - 1;
  let next: LineOffset | undefined;
  let breaks = 0;
  let withReturns = 0;

  function onLineEnd(end: number, hasReturn: boolean): void {
    breaks++;
    if (hasReturn) withReturns++;
    takeLine(end);
  }

  function takeLine(end: number): void {
    if (line >= startLine && next === undefined) {
      const bytes = Math.min(end - lineStart, maxLineBytes, maxBytes);
      if (line > endLine || (used > 0 && used + bytes > maxBytes)) next = { line, offset: lineStart };
      else {
        addStretch(stretches, {
          start: lineStart,
          end,
          line,
          isLong: end - lineStart > Math.min(maxLineLength, maxBytes),
        });
        used += bytes;
        last = line;
      }
    }
    line++;
    lineStart = end;
  }

  const hash = isWhole ? createHash('sha256') : undefined;
  // The byte order mark is part of the hash and of no line.
  hash?.update(encoding.mark);
  const scan = scanLines(encoding, begin.offset, onLineEnd);
  let offset = begin.offset;
  let isEnd = true;
  for await (const piece of readChunks(file, offset)) {
    hash?.update(piece);
    scan.push(piece);
    offset += piece.length;
    if (isWhole || offset >= file.facts.bytes) continue;
    const isFar = offset - begin.offset > maxBytesScanned;
    // All requested lines are there, so the length of the next one does not matter.
    if (line > endLine || (isFar && last >= startLine)) next ??= { line, offset: lineStart };
    if (next !== undefined || isFar) {
      isEnd = false;
      break;
    }
  }
  const givenUp = isEnd || next !== undefined ? undefined : { line, offset: lineStart };
  if (isEnd && lineStart < offset) takeLine(offset);

  const { content, cutLines } = await decodeStretches(file, encoding, stretches, maxBytes);
  return {
    content,
    endLine: last,
    cutLines,
    totalLines: isEnd ? line - 1 : null,
    next,
    truncated: next !== undefined && next.line <= endLine,
    givenUp,
    lineEnding: classifyLineEnding(breaks, withReturns),
    sha256: hash?.digest('hex') ?? null,
  };
}

function addStretch(stretches: LineStretch[], added: LineStretch): void {
  const before = stretches.at(-1);
  if (before === undefined || before.isLong || added.isLong) stretches.push(added);
  else before.end = added.end;
}

async function decodeStretches(
  file: OpenedFile,
  encoding: Encoding,
  stretches: readonly LineStretch[],
  maxBytes: number,
) {
  const parts: string[] = [];
  const cutLines: number[] = [];
  for (const { start, end, line, isLong } of stretches) {
    const length = isLong ? Math.min(end - start, maxLineBytes) : end - start;
    const bytes = await file.read(start, length);
    const text = length === end - start ? decodeText(bytes, encoding) : decodeBeginning(bytes, encoding);
    if (text === undefined) return { content: undefined, cutLines };
    const part = isLong ? cutLine(text, Math.min(maxLineLength, maxBytes), end - start) : text;
    if (part !== text) cutLines.push(line);
    parts.push(part);
  }
  return { content: parts.join(''), cutLines };
}

/** Decodes text whose last character may be incomplete. */
function decodeBeginning(bytes: Uint8Array, encoding: Encoding): string | undefined {
  for (let lost = 0; lost < 4; lost++) {
    const text = decodeText(bytes.subarray(0, bytes.length - lost), encoding);
    if (text !== undefined) return text;
  }
  return undefined;
}

function cutLine(text: string, maxLength: number, bytes: number): string {
  const line = text.replace(/\r?\n$/, '');
  if (line.length <= maxLength) return text;
  const kept = line.slice(0, maxLength).replace(/[\ud800-\udbff]$/, '');
  return `${kept}… [cut; the line has ${bytes} bytes]\n`;
}

export function createLineOffsets(): LineOffsets {
  const files = new Map<string, readonly LineOffset[]>();
  return {
    before: (file, line) =>
      files
        .get(file)
        ?.filter((known) => known.line <= line)
        .reduce<LineOffset | undefined>((a, b) => (a === undefined || b.line > a.line ? b : a), undefined),
    keep(file, offset) {
      const others = (files.get(file) ?? []).filter(({ line }) => line !== offset.line);
      // Inserted again, so that the file read longest ago is evicted first.
      files.delete(file);
      files.set(file, [...others, offset].slice(-maxOffsets));
      for (const oldest of files.keys()) {
        if (files.size <= maxFiles) break;
        files.delete(oldest);
      }
    },
  };
}
