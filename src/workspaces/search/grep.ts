import { isAmbitError } from '../../errors.ts';
import { createMutex } from '../../lib/async/mutex.ts';
import type { Glob } from '../../lib/text/glob.ts';
import type { SessionFiles } from '../session-files.ts';
import type { Expression } from './expression.ts';
import { type FoundMatch, grepFile, maxSearchedBytes } from './grep-file.ts';
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
