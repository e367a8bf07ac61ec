import { setImmediate as others } from 'node:timers/promises';
import * as z from 'zod';
import { AmbitError, isAmbitError } from '../../errors.ts';
import { createMutex } from '../../lib/async/mutex.ts';
import { sha256Hex } from '../../lib/json/canonical-json.ts';
import { applyEdit, replaceWhole, type TextEdit } from '../../lib/text/apply-edit.ts';
import {
  decodeFile,
  detectEncoding,
  type Encoding,
  encodeText,
  isWellFormedText,
  splitByteOrderMark,
} from '../../lib/text/encoding.ts';
import { escapeControls } from '../../lib/text/escape-controls.ts';
import { hasMarkers, mergeExistingCode } from '../../lib/text/existing-code.ts';
import type { Strategy } from '../../lib/text/find-text.ts';
import { formatCount } from '../../lib/text/format-count.ts';
import { formatFileDiff } from '../../lib/text/line-diff.ts';
import { countLines, detectLineEnding } from '../../lib/text/line-endings.ts';
import { defineTool, sessionArgument, type Tool, withBlocks } from '../../sessions/tools/tool.ts';
import type { FileWriteOptions, FoundFile } from '../backends/backend.ts';
import { tooLargeError } from '../backends/refusals.ts';
import type { ResolvedPath } from '../saferoot/file-info.ts';
import { withOpen } from '../saferoot/read.ts';
import type { SessionFiles } from '../session-files.ts';
import {
  changeMissingError,
  danglingLinkError,
  editRefusedError,
  fileChangedError,
  halfCharacterError,
  mergeRefusedError,
  notTextError,
  sameTextError,
  tooLargeToEditError,
} from './edit-refusals.ts';
import { type FileAccess, hashFile } from './file-access.ts';
import { pathArgument } from './file-schemas.ts';

const maxEdits = 100;

const edit = z.strictObject({
  oldText: z.string().describe('Text to replace, exactly as it is in the file, with enough context to be unique.'),
  newText: z.string().describe('Replacement text.'),
  replaceAll: z.boolean().optional().describe('Replace every occurrence.'),
});

const output = z.strictObject({
  path: z.string().describe('Path of the file after following links.'),
  created: z.boolean(),
  changed: z.boolean().describe('False if the file already had this content.'),
  dryRun: z.boolean(),
  bytes: z.number().int(),
  lines: z.number().int(),
  sha256: z.string().describe('Hash of the new content.'),
  encoding: z.string(),
  bom: z.boolean(),
  lineEnding: z.enum(['lf', 'crlf', 'mixed', 'none']),
  edits: z
    .array(
      z.strictObject({
        strategy: z
          .enum(['exact', 'line-endings', 'trailing-whitespace', 'indentation', 'existing-code'])
          .describe('How oldText was matched; "existing-code" for a block of content between markers.'),
        replacements: z.number().int(),
        line: z.number().int().describe('Line of the first replacement.'),
      }),
    )
    .describe('Result of each edit.'),
  added: z.number().int().describe('Number of added lines.'),
  removed: z.number().int().describe('Number of removed lines.'),
  diff: z.string().nullable().describe('Unified diff; null for a new file or a very long diff.'),
});

export function sessionEditFile(access: FileAccess): Tool {
  return defineTool({
    name: 'session_edit_file',
    title: 'Edit a file',
    description:
      'Changes a file in the workspace. "edits" replaces texts that occur exactly once, in order, all or none. "content" writes the whole file, creating folders; comment lines "... existing code ..." in it keep lines of the file. Line endings, encoding and mode are kept. Read the file first.',
    effect: 'destroys',
    input: z.strictObject({
      session: sessionArgument,
      path: pathArgument.describe('Relative to the workspace, such as "src/index.ts".'),
      content: z
        .string()
        .optional()
        .describe(
          'New content of the whole file. Or parts of it, between lines such as "// ... existing code ..."; each part must start and end with a line that the file has exactly once. Use either this or edits.',
        ),
      literal: z.boolean().optional().describe('Write "existing code" lines in content as they are.'),
      edits: z.array(edit).min(1).max(maxEdits).optional().describe('Replacements. Use either this or content.'),
      dryRun: z.boolean().optional().describe('Return the diff without writing.'),
      expectedSha256: z
        .string()
        .regex(/^[0-9a-fA-F]{64}$/, 'must be 64 hexadecimal digits')
        .optional()
        .describe('Change the file only if it still has this hash, as returned by session_read_file.'),
    }),
    output,
    async run({ session, path, content, literal = false, edits, dryRun = false, expectedSha256 }, caller) {
      const change = readChange(content, literal, edits);
      const answer = await access.withFiles(session, caller, 'session_edit_file', (files) =>
        editFile(files, { path, change, dryRun, expectedSha256: expectedSha256?.toLowerCase() }),
      );
      return withBlocks(answer, { type: 'text', text: summarizeEdit(answer) });
    },
  });
}

function readChange(
  content: string | undefined,
  literal: boolean,
  edits: z.output<typeof edit>[] | undefined,
): FileChange {
  if ((content === undefined) === (edits === undefined)) throw changeMissingError();
  if (edits === undefined) {
    if (!isWellFormedText(content as string)) throw halfCharacterError();
    return { content: content as string, literal };
  }
  for (const [i, { oldText, newText }] of edits.entries()) {
    if (!isWellFormedText(newText)) throw halfCharacterError();
    if (oldText === newText) throw sameTextError(`edits[${i}]`);
  }
  return { edits };
}

function summarizeEdit({
  path: where,
  created,
  changed,
  dryRun,
  lines,
  bytes,
  added,
  removed,
  diff,
  edits,
}: z.input<typeof output>) {
  const path = escapeControls(where);
  const loose = new Set(edits.map(({ strategy }) => strategy).filter((strategy) => strategy !== 'exact'));
  const ways = loose.has('existing-code')
    ? ' Lines at "existing code" markers were kept.'
    : loose.size > 0
      ? ` Matched except for ${[...loose].join(', ')}.`
      : '';
  const size = `${formatCount(lines, 'line')}, ${formatCount(bytes, 'byte')}`;
  if (created) return `${dryRun ? 'Would create' : 'Created'} ${path}: ${size}.`;
  if (!changed) return `${path} already has this content.`;
  const head = `${dryRun ? 'Would change' : 'Changed'} ${path}: +${added} −${removed} lines, now ${size}.${ways}`;
  return diff === null || diff === '' ? head : `${head}\n\n${diff}`;
}

/** `literal`: markers in the content are written as they are. */
type FileChange = { readonly content: string; readonly literal: boolean } | { readonly edits: readonly TextEdit[] };

/** The content of a file, and its text where it is a text file. */
interface FileContent {
  readonly bytes: Uint8Array;
  readonly decoded: { readonly text: string; readonly encoding: Encoding } | undefined;
}

interface AppliedEdit {
  readonly strategy: Strategy | 'existing-code';
  readonly replacements: number;
  /** The line of the first replacement, in the file after the edits before. */
  readonly line: number;
}

interface ChangedContent {
  readonly text: string;
  readonly bytes: Uint8Array;
  readonly encoding: Encoding;
  readonly edits: readonly AppliedEdit[];
}

const utf8 = detectEncoding(new Uint8Array()) as Encoding;

/** In longer texts, other requests may run between edits. */
const yieldAboveLength = 256 * 1024;

export interface EditRequest {
  readonly path: string;
  readonly change: FileChange;
  readonly dryRun: boolean;
  readonly expectedSha256: string | undefined;
}

/** After so many concurrent writes the edit is given up. */
const maxAttempts = 5;
/** Larger files are edited one at a time, since an edit takes several times their size in memory. */
const largeBytes = 2 * 1024 * 1024;
const largeFileMutex = createMutex();

/** Reads, changes and writes a file as one step: a concurrent write is never lost. */
export function editFile(files: SessionFiles, edit: EditRequest) {
  return files.runExclusive(edit.path, async () => {
    for (let tries = 1; ; tries++) {
      try {
        return await editFileOnce(files, edit);
      } catch (error) {
        // With an expected hash the caller decides again; any other edit is tried on the new content.
        if (edit.expectedSha256 !== undefined || !isConcurrentChange(error)) throw error;
        if (tries === maxAttempts) throw error.code === 'FILE_EXISTS' ? danglingLinkError(edit.path) : error;
      }
    }
  });
}

async function editFileOnce(files: SessionFiles, edit: EditRequest) {
  let releaseMutex = () => {};
  const beforeReading = async (bytes: number) => {
    if (bytes > largeBytes) releaseMutex = await largeFileMutex();
  };
  try {
    return await applyChange(files, edit, await openCurrent(files, edit, beforeReading));
  } finally {
    releaseMutex();
  }
}

async function applyChange(files: SessionFiles, { path, change, dryRun }: EditRequest, there: CurrentFile | undefined) {
  const shownPath = there?.facts.path ?? path;
  const next = await computeContent(shownPath, there?.current, change, files.fileBytes);
  if (next.bytes.length > files.fileBytes) throw tooLargeError(next.bytes.length, files.fileBytes);
  const before = there?.current;
  const isSame = before !== undefined && Buffer.compare(before.bytes, next.bytes) === 0;
  const how: FileWriteOptions = { expected: there === undefined ? 'absent' : { version: there.facts.version } };
  const write = () => (dryRun ? files.mayWrite(path, how) : files.write(path, next.bytes, how));
  const written: ResolvedPath = isSame ? { path: shownPath } : await write();
  const old = there === undefined ? '' : before?.decoded?.text;
  const diff = old === undefined ? undefined : formatFileDiff(written.path, old, next.text);
  return {
    path: written.path,
    created: there === undefined,
    changed: !isSame,
    dryRun,
    bytes: next.bytes.length,
    lines: countLines(next.text),
    sha256: sha256Hex(next.bytes),
    encoding: next.encoding.name,
    bom: next.encoding.mark.length > 0,
    lineEnding: detectLineEnding(next.text),
    edits: next.edits.map((each) => ({ ...each })),
    added: diff?.added ?? countLines(next.text),
    removed: diff?.removed ?? 0,
    // The caller knows every line of a new file.
    diff: there === undefined ? null : (diff?.text ?? null),
  };
}

interface CurrentFile {
  readonly facts: FoundFile;
  /** Undefined when it is larger than any file that is edited. */
  readonly current: FileContent | undefined;
}

async function openCurrent(
  files: SessionFiles,
  { path, change, expectedSha256: expected }: EditRequest,
  beforeReading: (bytes: number) => Promise<void>,
): Promise<CurrentFile | undefined> {
  const needsText = 'edits' in change || (!change.literal && hasMarkers(change.content));
  const creates = !needsText || ('edits' in change && change.edits[0]?.oldText === '');
  const opened = await files.open(path).catch((error: unknown) => {
    if (!isAmbitError(error) || error.code !== 'FILE_NOT_FOUND') throw error;
    if (expected !== undefined) throw fileChangedError(path, undefined);
    if (!creates) throw fileNotFoundError(error, 'content' in change);
  });
  if (opened === undefined) return undefined;
  return withOpen(opened, async (file) => {
    const { facts } = file;
    const isLarge = facts.bytes > files.fileBytes;
    if (isLarge && needsText) throw tooLargeToEditError(facts.path, facts.bytes, files.fileBytes);
    if (!isLarge) await beforeReading(facts.bytes);
    const bytes = isLarge ? undefined : await file.read(0, facts.bytes);
    const current = bytes && { bytes, decoded: decodeFile(bytes) };
    if (expected !== undefined) {
      const actual = current === undefined ? await hashFile(file) : sha256Hex(current.bytes);
      if (actual !== expected) throw fileChangedError(facts.path, actual ?? 'not known');
    }
    return { facts, current };
  });
}

function isConcurrentChange(error: unknown): error is AmbitError {
  return isAmbitError(error) && (error.code === 'FILE_CHANGED' || error.code === 'FILE_EXISTS');
}

function fileNotFoundError({ message }: AmbitError, isMerge: boolean): AmbitError {
  const create = isMerge
    ? 'pass its whole content. "existing code" markers keep lines of a file that exists. Only if such comments are to stand in the file themselves, pass "literal": true.'
    : 'pass "content" to create it.';
  return new AmbitError('FILE_NOT_FOUND', {
    what: message,
    hint: `Find it with session_list_dir or session_file_search, or ${create}`,
  });
}

/** Applies all of the change or nothing. Encoding, byte order mark and line endings stay. */
async function computeContent(
  path: string,
  current: FileContent | undefined,
  change: FileChange,
  fileBytes: number,
): Promise<ChangedContent> {
  const encoding = current?.decoded?.encoding ?? utf8;
  if ('content' in change) return computeWhole(path, current, change, encoding);
  if (current !== undefined && current.decoded === undefined) throw notTextError(path);
  let text = current?.decoded?.text ?? '';
  const edits: AppliedEdit[] = [];
  for (const [i, edit] of change.edits.entries()) {
    if (text.length > yieldAboveLength) await others();
    const outcome = applyEdit(text, edit, fileBytes);
    if (outcome.kind !== 'applied') throw editRefusedError(outcome, `edits[${i}]`, path, text, edit);
    edits.push({ strategy: outcome.strategy, replacements: outcome.lines.length, line: outcome.lines[0] ?? 1 });
    text = outcome.text;
  }
  return { text, bytes: encodeText(text, encoding), encoding, edits };
}

async function computeWhole(
  path: string,
  current: FileContent | undefined,
  { content, literal }: Extract<FileChange, { content: string }>,
  encoding: Encoding,
): Promise<ChangedContent> {
  const given = splitByteOrderMark(content, encoding);
  const before = current?.decoded?.text ?? '';
  if (current !== undefined && !literal) {
    if (current.decoded === undefined && hasMarkers(content)) throw notTextError(path);
    if (before.length > yieldAboveLength) await others();
    const outcome = mergeExistingCode(before, given.text);
    if (outcome.kind === 'refused') throw mergeRefusedError(outcome.refusal, path, before);
    if (outcome.kind === 'merged') {
      const edits = outcome.lines.map((line) => ({ strategy: 'existing-code' as const, replacements: 1, line }));
      return { text: outcome.text, bytes: encodeText(outcome.text, encoding), encoding, edits };
    }
  }
  const text = replaceWhole(before, given.text);
  return { text, bytes: encodeText(text, given.encoding), encoding: given.encoding, edits: [] };
}
