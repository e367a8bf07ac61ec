import * as z from 'zod';
import { AmbitError } from '../../errors.ts';
import { detectEncoding, type Encoding, headBytes } from '../../lib/text/encoding.ts';
import { escapeControls } from '../../lib/text/escape-controls.ts';
import { formatCount } from '../../lib/text/format-count.ts';
import { detectImageType, detectMediaType } from '../../lib/text/media-type.ts';
import {
  type AnswerWithBlocks,
  defineTool,
  sessionArgument,
  type Tool,
  withBlocks,
} from '../../sessions/tools/tool.ts';
import type { OpenedFile } from '../backends/backend.ts';
import { quotePath } from '../saferoot/saferoot-error.ts';
import { withOpen } from '../with-open.ts';
import type { FileAccess } from './file-access.ts';
import { bufferIfSmall, hashFile } from './file-chunks.ts';
import { pathArgument, sha256Schema } from './file-schemas.ts';
import { createLineOffsets, type LineOffsets, type LineRange, maxLineLength, readLines } from './read-lines.ts';

const defaultBytes = 256 * 1024;
const maxBytesArgument = z.number().int().min(1).max(1_048_576).optional();
/** In base64 this is the limit of models for one image. */
const maxImageBytes = 3_750_000;
const line = z.number().int().min(1);
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
