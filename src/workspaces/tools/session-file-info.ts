import * as z from 'zod';
import { type ErrorCode, isAmbitError } from '../../errors.ts';
import { detectEncoding, headBytes } from '../../lib/text/encoding.ts';
import { detectImageType, detectMediaType } from '../../lib/text/media-type.ts';
import { defineTool, sessionArgument, type Tool } from '../../sessions/tools/tool.ts';
import type { OpenedFile } from '../backends/backend.ts';
import { withOpen } from '../saferoot/read.ts';
import type { SessionFiles } from '../session-files.ts';
import { type FileAccess, hashFile, maxWholeBytes } from './file-access.ts';
import { formatTime, pathArgument, sha256Schema } from './file-schemas.ts';
import { readLines } from './session-read-file.ts';

const kind = z.enum(['file', 'folder', 'link', 'special']);
const content = z.strictObject({
  binary: z.boolean(),
  mimeType: z.string(),
  encoding: z.string().nullable(),
  bom: z.boolean(),
  lineEnding: z.enum(['lf', 'crlf', 'mixed', 'none']).nullable(),
  lines: z.number().int().nullable().describe('Null if the file is not text or larger than 16 MiB.'),
  sha256: sha256Schema,
});
const output = z.strictObject({
  path: z.string().describe('Path after following links in its folders; a final link is not followed.'),
  kind,
  bytes: z.number().int(),
  modified: z.string().describe('ISO 8601'),
  mode: z.string().describe('Permission bits, such as "644".'),
  target: z
    .strictObject({ path: z.string(), kind })
    .nullable()
    .describe('Target of a link within the workspace; otherwise null.'),
  writable: z.boolean().describe('Whether session_edit_file may change the file, or the target of the link.'),
  content: content.nullable().describe('Details of the file, or of the target of a link.'),
});

export function sessionFileInfo(access: FileAccess): Tool {
  return defineTool({
    name: 'session_file_info',
    title: 'Describe a file',
    description:
      'Describes a path in the workspace: kind, size, modification time and mode; for a file also type, encoding, number of lines and hash.',
    effect: 'reads',
    input: z.strictObject({
      session: sessionArgument,
      path: pathArgument.describe('Relative to the workspace; "." is the workspace itself.'),
    }),
    output,
    run: ({ session, path }, caller) =>
      access.withFiles(session, caller, 'session_file_info', (files) => readInfo(files, path)),
  });
}

async function readInfo(files: SessionFiles, path: string): Promise<z.input<typeof output>> {
  const own = await files.stat(path, { link: true });
  const target = own.kind === 'link' ? await ignoreRefusal(files.stat(path)) : undefined;
  const isFile = (target ?? own).kind === 'file';
  return {
    path: own.path,
    kind: own.kind,
    bytes: own.bytes,
    modified: formatTime(own.modifiedMs),
    mode: (own.mode & 0o7777).toString(8).padStart(3, '0'),
    target: target === undefined ? null : { path: target.path, kind: target.kind },
    writable: isFile && (await ignoreRefusal(files.mayWrite(path))) !== undefined,
    content: isFile ? await withOpen(files.open(path), readContentInfo) : null,
  };
}

/** Returns undefined for a refusal: a dangling link is still a link, and a read-only file still a file. */
async function ignoreRefusal<T>(asking: Promise<T>): Promise<T | undefined> {
  try {
    return await asking;
  } catch (error) {
    if (isAmbitError(error) && !notRefusals.has(error.code)) return undefined;
    throw error;
  }
}

/** Errors that are no refusal. */
const notRefusals: ReadonlySet<string> = new Set<ErrorCode>(['INTERNAL', 'WORKSPACE_UNAVAILABLE']);

async function readContentInfo(file: OpenedFile): Promise<z.input<typeof content>> {
  const head = await file.read(0, headBytes);
  const encoding = detectImageType(head) === undefined ? detectEncoding(head) : undefined;
  const none = { endLine: Number.MAX_SAFE_INTEGER, startLine: Number.MAX_SAFE_INTEGER, maxBytes: 1 };
  const isWhole = file.facts.bytes <= maxWholeBytes;
  const read = encoding === undefined || !isWhole ? undefined : await readLines(file, encoding, none);
  return {
    binary: encoding === undefined,
    mimeType: detectMediaType(file.facts.path, head, encoding !== undefined),
    encoding: encoding?.name ?? null,
    bom: encoding !== undefined && encoding.mark.length > 0,
    lineEnding: read?.lineEnding ?? null,
    lines: read?.totalLines ?? null,
    sha256: read === undefined ? await hashFile(file) : read.sha256,
  };
}
