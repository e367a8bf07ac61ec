import { setImmediate as others } from 'node:timers/promises';
import { AmbitError, isAmbitError } from '../../errors.ts';
import { createMutex } from '../../lib/async/mutex.ts';
import { sha256Hex } from '../../lib/json/canonical-json.ts';
import { applyEdit, replaceWhole, type TextEdit } from '../../lib/text/apply-edit.ts';
import { decodeFile, detectEncoding, type Encoding, encodeText, splitByteOrderMark } from '../../lib/text/encoding.ts';
import { hasMarkers, mergeExistingCode } from '../../lib/text/existing-code.ts';
import type { Strategy } from '../../lib/text/find-text.ts';
import { formatFileDiff } from '../../lib/text/line-diff.ts';
import { countLines, detectLineEnding } from '../../lib/text/line-endings.ts';
import type { FileWriteOptions, FoundFile } from '../backends/backend.ts';
import { tooLargeError } from '../backends/refusals.ts';
import type { ResolvedPath } from '../saferoot/file-info.ts';
import type { SessionFiles } from '../session-files.ts';
import { withOpen } from '../with-open.ts';
import {
  danglingLinkError,
  editRefusedError,
  fileChangedError,
  mergeRefusedError,
  notTextError,
  tooLargeToEditError,
} from './edit-refusals.ts';
import { hashFile } from './file-chunks.ts';

/** `literal`: markers in the content are written as they are. */
export type FileChange =
  | { readonly content: string; readonly literal: boolean }
  | { readonly edits: readonly TextEdit[] };

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
