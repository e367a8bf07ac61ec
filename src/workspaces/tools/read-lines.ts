import { createHash } from 'node:crypto';
import { decode, type Encoding } from '../../lib/text/encoding.ts';
import { type LineEnding, lineEndingFrom } from '../../lib/text/line-endings.ts';
import { scanLines } from '../../lib/text/scan-lines.ts';
import type { OpenedFile } from '../backends/backend.ts';
import { maxWholeBytes, readChunks } from './file-chunks.ts';

/**
 * Where lines of large files begin, as reads found out, so that whoever reads on does not count from the beginning
 * again. A place holds for one version of a file only.
 */
export interface LineOffsets {
  /** The last known place that is not behind the line. */
  before(file: string, line: number): LineOffset | undefined;
  keep(file: string, place: LineOffset): void;
}

const maxFiles = 64;

const maxOffsets = 32;

export interface LineRange {
  readonly startLine: number;
  readonly endLine: number;
  readonly maxBytes: number;
}

/** Where a line begins. */
export interface LineOffset {
  readonly line: number;
  readonly offset: number;
}

export interface LineReadResult {
  /** Undefined when the bytes are not text after all. */
  readonly content: string | undefined;
  /** The last line in `content`; the one before `startLine` when there is none. */
  readonly endLine: number;
  readonly cutLines: readonly number[];
  readonly totalLines: number | null;
  /** The line after the last one, unless the file ends there. */
  readonly next: LineOffset | undefined;
  /** `maxBytes` was reached before the last line asked for. */
  readonly truncated: boolean;
  /** How far was looked without coming to the lines asked for: they lie too far in. */
  readonly givenUp: LineOffset | undefined;
  readonly lineEnding: LineEnding;
  readonly sha256: string | null;
}

/** Longer lines are cut, so that a few of them do not take the room of all others. */
export const maxLineLength = 2000;
/** As many bytes as that many characters can have. */
const maxLineBytes = maxLineLength * 4;

/** More of a file is not gone through for one answer: it may be a hole of many terabytes. */
const maxScannedBytes = 2 * 1024 ** 3;

/** Lines that lie next to each other and are short, or one that may have to be cut. */
interface LineStretch {
  readonly start: number;
  readonly line: number;
  readonly isLong: boolean;
  end: number;
}

/** Reads lines of a file, holding no more of it than is asked for. Begins to count at a place that is known. */
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
  // The mark belongs to the hash and to no line.
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
    // All that was asked for is there: how long the line after it is need not be known.
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
    lineEnding: lineEndingFrom(breaks, withReturns),
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
    const most = isLong ? Math.min(end - start, maxLineBytes) : end - start;
    const bytes = await file.read(start, most);
    const text = most === end - start ? decode(bytes, encoding) : decodeBeginning(bytes, encoding);
    if (text === undefined) return { content: undefined, cutLines };
    const shown = isLong ? cutLine(text, Math.min(maxLineLength, maxBytes), end - start) : text;
    if (shown !== text) cutLines.push(line);
    parts.push(shown);
  }
  return { content: parts.join(''), cutLines };
}

/** The last character may have lost some of its bytes. */
function decodeBeginning(bytes: Uint8Array, encoding: Encoding): string | undefined {
  for (let lost = 0; lost < 4; lost++) {
    const text = decode(bytes.subarray(0, bytes.length - lost), encoding);
    if (text !== undefined) return text;
  }
  return undefined;
}

function cutLine(text: string, most: number, bytes: number): string {
  const line = text.replace(/\r?\n$/, '');
  if (line.length <= most) return text;
  const kept = line.slice(0, most).replace(/[\ud800-\udbff]$/, '');
  return `${kept}… [cut; the line has ${bytes} bytes]\n`;
}

export function createLineOffsets(): LineOffsets {
  const files = new Map<string, readonly LineOffset[]>();
  return {
    before: (file, line) =>
      files
        .get(file)
        ?.filter((place) => place.line <= line)
        .reduce<LineOffset | undefined>((a, b) => (a === undefined || b.line > a.line ? b : a), undefined),
    keep(file, place) {
      const others = (files.get(file) ?? []).filter(({ line }) => line !== place.line);
      // Set anew, so that the file read longest ago is the first to go.
      files.delete(file);
      files.set(file, [...others, place].slice(-maxOffsets));
      for (const oldest of files.keys()) {
        if (files.size <= maxFiles) break;
        files.delete(oldest);
      }
    },
  };
}
