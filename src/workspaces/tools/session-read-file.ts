import { createHash } from 'node:crypto';
import * as z from 'zod';
import { AmbitError } from '../../errors.ts';
import { decodeText, detectEncoding, type Encoding, headBytes } from '../../lib/text/encoding.ts';
import { escapeControls } from '../../lib/text/escape-controls.ts';
import { formatCount } from '../../lib/text/format-count.ts';
import { classifyLineEnding, type LineEnding, scanLines } from '../../lib/text/line-endings.ts';
import { detectImageType, detectMediaType } from '../../lib/text/media-type.ts';
import {
  type AnswerWithBlocks,
  defineTool,
  sessionArgument,
  type Tool,
  withBlocks,
} from '../../sessions/tools/tool.ts';
import type { OpenedFile } from '../backends/backend.ts';
import { withOpen } from '../saferoot/read.ts';
import { quotePath } from '../saferoot/saferoot-error.ts';
import { bufferIfSmall, type FileAccess, hashFile, maxWholeBytes, readChunks } from './file-access.ts';
import { pathArgument, sha256Schema } from './file-schemas.ts';

const defaultBytes = 256 * 1024;
const maxBytesArgument = z.number().int().min(1).max(1_048_576).optional();
/** In base64 this is the limit of models for one image. */
const maxImageBytes = 3_750_000;
const line = z.number().int().min(1);
/** Longer lines are cut, so that a few of them do not crowd out all others. */
const maxLineLength = 2000;
/** The bytes that so many characters can have. */
const maxLineBytes = maxLineLength * 4;

const output = z.strictObject({
  path: z.string().describe('Path of the file after following links.'),
  kind: z.enum(['text', 'image', 'binary']),
  content: z.string().nullable().describe('The lines, exactly as in the file; null if the file is not text.'),
  startLine: z.number().int(),
  endLine: z.number().int(),
  totalLines: z.number().int().nullable().describe('Null if a large file was not read to the end.'),
  truncated: z.boolean().describe('Whether requested lines were left out because of maxBytes.'),
  nextLine: z.number().int().nullable().describe('startLine for the next part; null at the end of the file.'),
  cutLines: z.array(z.number().int()).describe(`Numbers of the lines that were cut after ${maxLineLength} characters.`),
  bytes: z.number().int().describe('Size of the file.'),
  sha256: sha256Schema,
  encoding: z.string().nullable(),
  bom: z.boolean(),
  lineEnding: z.enum(['lf', 'crlf', 'mixed', 'none']).nullable(),
  mimeType: z.string(),
});
type ReadFileAnswer = z.input<typeof output>;

export function sessionReadFile(access: FileAccess): Tool {
  const offsets = createLineOffsets();
  return defineTool({
    name: 'session_read_file',
    title: 'Read a file',
    description:
      'Reads a text file in the workspace, or some of its lines; images are shown. A long file is returned in parts: continue at nextLine.',
    effect: 'reads',
    input: z.strictObject({
      session: sessionArgument,
      path: pathArgument.describe('Relative to the workspace, such as "src/index.ts".'),
      startLine: line.optional().describe('First line. Default: 1.'),
      endLine: line.optional().describe('Last line, inclusive. Default: the end of the file.'),
      maxBytes: maxBytesArgument.describe(`Maximum number of bytes. Default: ${defaultBytes}.`),
    }),
    output,
    async run({ session, path, startLine = 1, endLine = Number.MAX_SAFE_INTEGER, maxBytes = defaultBytes }, caller) {
      if (endLine < startLine) {
        throw new AmbitError('REQUEST_INVALID', {
          what: `endLine ${endLine} is before startLine ${startLine}.`,
          hint: 'Both count from 1, and both lines are included.',
        });
      }
      const range = { startLine, endLine, maxBytes };
      const owner = `${caller.session.id}\0${session}`;
      return access.withFiles(session, caller, 'session_read_file', (files) =>
        withOpen(files.open(path), async (file) => readTextOrImage(await bufferIfSmall(file), range, offsets, owner)),
      );
    },
  });
}

async function readTextOrImage(
  file: OpenedFile,
  range: LineRange,
  offsets: LineOffsets,
  owner: string,
): Promise<AnswerWithBlocks<ReadFileAnswer>> {
  const head = await file.read(0, headBytes);
  const encoding = detectEncoding(head);
  if (encoding === undefined || detectImageType(head) !== undefined) return describeBinary(file, head);
  const { path, bytes, version } = file.facts;
  const key = `${owner}\0${path}\0${version}`;
  const read = await readLines(file, encoding, range, offsets.before(key, range.startLine));
  if (read.totalLines === null && read.next !== undefined) offsets.keep(key, read.next);
  if (read.givenUp !== undefined) {
    offsets.keep(key, read.givenUp);
    throw tooFarInError(path, read.givenUp.line);
  }
  const { content, next, sha256, endLine, totalLines, truncated, cutLines, lineEnding } = read;
  if (content === undefined) return describeBinary(file, head, encoding);
  if (endLine < range.startLine && range.startLine > 1) throw beyondEndError(path, totalLines ?? 0);
  const answer: ReadFileAnswer = {
    path,
    kind: 'text',
    content,
    startLine: range.startLine,
    endLine,
    totalLines,
    truncated,
    nextLine: next?.line ?? null,
    cutLines: [...cutLines],
    bytes,
    sha256,
    encoding: encoding.name,
    bom: encoding.mark.length > 0,
    lineEnding,
    mimeType: detectMediaType(path, head, true),
  };
  const note = createNote(answer);
  return withBlocks(
    answer,
    { type: 'text', text: content },
    ...(note === '' ? [] : [{ type: 'text' as const, text: note }]),
  );
}

/** A note apart from the text, which stays as in the file. */
function createNote({ bytes, startLine, endLine, totalLines, nextLine, cutLines }: ReadFileAnswer): string {
  if (bytes === 0) return '[The file is empty.]';
  const words: string[] = [];
  if (startLine > 1 || nextLine !== null) {
    words.push(`Lines ${startLine} to ${endLine}${totalLines === null ? '' : ` of ${totalLines}`}.`);
  }
  if (nextLine !== null) words.push(`Continue with startLine ${nextLine}.`);
  if (cutLines.length > 0)
    words.push(`${formatCount(cutLines.length, 'long line')} cut; use session_grep_search to search them.`);
  return words.length === 0 ? '' : `[${words.join(' ')}]`;
}

/** Describes a file that is no text; an image is shown unless it is too large. */
async function describeBinary(
  file: OpenedFile,
  head: Uint8Array,
  encoding?: Encoding,
): Promise<AnswerWithBlocks<ReadFileAnswer>> {
  const { path, bytes } = file.facts;
  const image = detectImageType(head);
  const mimeType = detectMediaType(path, head, false);
  const answer: ReadFileAnswer = {
    path,
    kind: image === undefined ? 'binary' : 'image',
    content: null,
    startLine: 0,
    endLine: 0,
    totalLines: null,
    truncated: false,
    nextLine: null,
    cutLines: [],
    bytes,
    sha256: await hashFile(file),
    encoding: null,
    bom: false,
    lineEnding: null,
    mimeType,
  };
  const what = `${escapeControls(path)}: ${mimeType}, ${bytes} bytes.`;
  if (image !== undefined && bytes <= maxImageBytes) {
    const data = Buffer.from(await file.read(0, bytes)).toString('base64');
    return withBlocks(answer, { type: 'text', text: what }, { type: 'image', data, mimeType });
  }
  const why =
    image !== undefined
      ? `It is too large to be shown; the limit is ${maxImageBytes} bytes.`
      : encoding === undefined
        ? 'It is not text and is not shown.'
        : `It is not valid ${encoding.name.toUpperCase()} and is not shown.`;
  return withBlocks(answer, { type: 'text', text: `${what} ${why} It can only be moved, deleted or replaced.` });
}

function tooFarInError(path: string, line: number): AmbitError {
  return new AmbitError('FILE_TOO_LARGE', {
    what: `The requested lines are too far into ${quotePath(path)}: one read reached line ${line}.`,
    hint: 'Try again to continue from there, or start at that line.',
  });
}

function beyondEndError(path: string, lines: number): AmbitError {
  return new AmbitError('REQUEST_INVALID', {
    what: `startLine is after the end: ${quotePath(path)} has ${formatCount(lines, 'line')}.`,
    hint: 'Use a startLine within the file.',
  });
}

/**
 * Known offsets of lines in large files, so that reading on does not count lines from the start again. An offset is
 * valid for one version of a file only.
 */
interface LineOffsets {
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

function createLineOffsets(): LineOffsets {
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
