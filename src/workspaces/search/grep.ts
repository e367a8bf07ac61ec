import { isUtf8 } from 'node:buffer';
import { isAmbitError } from '../../errors.ts';
import { createMutex } from '../../lib/async/mutex.ts';
import type { Glob } from '../../lib/text/glob.ts';
import type { SessionFiles } from '../session-files.ts';
import type { Expression } from './expression.ts';
import { combineRules, createIgnoreJudge, relativeTo } from './ignore-rules.ts';
import { createSearchBudget, type SearchBudget, type SearchLimits, type StopReason } from './search-budget.ts';
import { walkFiles } from './walk-files.ts';

interface FileBytes {
  readonly path: string;
  readonly bytes: Uint8Array;
  readonly modifiedMs: number;
}

type ReadContent = Omit<FileBytes, 'path'>;

/** Reading mostly waits; more at once would only use more memory. */
const maxParallel = 8;

/** Larger files are read one at a time over all searches, to bound memory. */
const maxAheadBytes = 1024 * 1024;

const acquireLarge = createMutex();

export interface GrepQuery {
  readonly expression: Expression;
  /** A file, or a folder with all its entries. */
  readonly path: string;
  /** Matched against paths relative to `path`. */
  readonly glob?: Glob | undefined;
  readonly contextLines: number;
  readonly limit: number;
}

export interface GrepResult {
  readonly files: readonly { readonly path: string; readonly matches: readonly FoundMatch[] }[];
  readonly stopped: StopReason | 'limit' | undefined;
}

/** The largest size of all returned lines. */
const maxShown = 256 * 1024;

/**
 * Searches the files of a session, in the order of their paths. Where the backend finds candidates, only those are
 * read; the content is read through the files of the session either way.
 */
export async function grepFiles(
  files: SessionFiles,
  query: GrepQuery,
  bounds?: SearchLimits,
  signal?: AbortSignal,
): Promise<GrepResult> {
  const budget = createSearchBudget(bounds, signal);
  const { path: start, kind } = await files.stat(query.path);
  const found: { path: string; matches: FoundMatch[] }[] = [];
  const remaining = { characters: maxShown };
  let left = query.limit;
  const paths =
    kind === 'file'
      ? yieldPath(start)
      : findPaths(files, start, { query, budget, signal, isFolder: kind === 'folder' });
  for await (const { path, bytes } of readAhead(files, paths)) {
    // One match more than the limit shows whether there are more.
    const matches = await grepFile(bytes, { ...query, limit: left + 1, remaining, budget });
    if (matches.length > left) {
      if (left > 0) found.push({ path, matches: matches.slice(0, left) });
      return { files: found, stopped: 'limit' };
    }
    if (matches.length > 0) found.push({ path, matches });
    left -= matches.length;
    if (remaining.characters < 0) return { files: found, stopped: 'limit' };
    if (!(await budget.canContinue())) break;
  }
  return { files: found, stopped: budget.stopped };
}

export interface SearchParts {
  /** False for other kinds, which the listing refuses. */
  readonly isFolder: boolean;
  readonly query: Pick<GrepQuery, 'expression' | 'glob'>;
  readonly budget: SearchBudget;
  readonly signal: AbortSignal | undefined;
}

/** Finds the files that may contain a match, in the order of a walk. */
export async function* findPaths(files: SessionFiles, start: string, parts: SearchParts): AsyncGenerator<string> {
  const { query, budget, signal, isFolder } = parts;
  const { glob } = query;
  const isWanted = (path: string) => glob?.matches(relativeTo(start, path)) ?? true;
  const judge = createIgnoreJudge(files, start, budget);
  const readRules = (ignoreFiles: readonly string[]) => combineRules(ignoreFiles, { judge, start, budget });
  const findCandidates = isFolder ? files.candidates : undefined;
  const candidates = await findCandidates?.({ rust: query.expression.rust, path: start, glob, readRules, signal });
  if (candidates !== undefined) {
    for (const path of sortInWalkOrder(candidates)) {
      if (budget.count() && !(await budget.canContinue())) return;
      if (isWanted(path) && !(await judge.isSkipped(path, false))) yield path;
    }
    return;
  }
  const enter = glob === undefined ? undefined : (folder: string) => glob.mayContain(relativeTo(start, folder));
  for await (const entries of walkFiles(files, start, { budget, ...(enter === undefined ? {} : { enter }) })) {
    for (const { path, kind, closed, unrepresentable } of entries) {
      if (kind === 'file' && !closed && !unrepresentable && isWanted(path)) yield path;
    }
  }
}

async function* yieldPath(path: string): AsyncGenerator<string> {
  yield path;
}

/** Sorts as a walk does: a name comes before all longer names that begin with it. */
function sortInWalkOrder(paths: readonly string[]): string[] {
  const keyed = paths.map((path) => ({ path, key: path.replaceAll('/', '\0') }));
  return keyed.sort((one, other) => (one.key < other.key ? -1 : 1)).map(({ path }) => path);
}

/** Reads files in order, through the files of the session. Missing, protected and too large files are skipped. */
export async function* readAhead(
  files: Pick<SessionFiles, 'open'>,
  paths: AsyncIterable<string> | Iterable<string>,
): AsyncGenerator<FileBytes> {
  const pending: { readonly path: string; readonly content: Promise<ReadContent | 'large' | undefined> }[] = [];
  async function* readNext(): AsyncGenerator<FileBytes> {
    const first = pending.shift();
    const content = await first?.content;
    if (first === undefined || content === undefined) return;
    const { path } = first;
    if (content !== 'large') {
      yield { path, ...content };
      return;
    }
    const release = await acquireLarge();
    try {
      const whole = await readFile(files, path, maxSearchedBytes);
      if (whole !== undefined && whole !== 'large') yield { path, ...whole };
    } finally {
      release();
    }
  }
  try {
    for await (const path of paths) {
      const content = readFile(files, path, maxAheadBytes);
      // An error is thrown later, when the file is next.
      content.catch(() => {});
      pending.push({ path, content });
      if (pending.length >= maxParallel) yield* readNext();
    }
    while (pending.length > 0) yield* readNext();
  } finally {
    await Promise.allSettled(pending.map(({ content }) => content));
  }
}

async function readFile(
  files: Pick<SessionFiles, 'open'>,
  path: string,
  maxBytes: number,
): Promise<ReadContent | 'large' | undefined> {
  try {
    const file = await files.open(path);
    try {
      // The path has become a link to another file.
      if (file.facts.path !== path || file.facts.bytes > maxSearchedBytes) return undefined;
      if (file.facts.bytes > maxBytes) return 'large';
      const bytes = await file.read(0, maxBytes + 1);
      return bytes.length > maxBytes ? undefined : { bytes, modifiedMs: file.facts.modifiedMs };
    } finally {
      await file.close();
    }
  } catch (error) {
    if (isAmbitError(error)) return undefined;
    throw error;
  }
}

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
