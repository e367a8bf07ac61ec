import type { Glob } from '../../lib/text/glob.ts';
import type { SessionFiles } from '../session-files.ts';
import type { Expression } from './expression.ts';
import { type FoundMatch, grepFile } from './grep-file.ts';
import { below, createJudge, rulesFrom } from './ignore-rules.ts';
import { readAhead } from './read-ahead.ts';
import { type Budget, createBudget, type SearchBounds, type Stopped } from './search-budget.ts';
import { walkFiles } from './walk-files.ts';

export interface GrepQuery {
  readonly expression: Expression;
  /** A file, or a folder with all that is in it. */
  readonly path: string;
  /** Over paths relative to `path`. */
  readonly glob?: Glob | undefined;
  readonly contextLines: number;
  /** Matches, at most. */
  readonly limit: number;
}

export interface GrepFound {
  readonly files: readonly { readonly path: string; readonly matches: readonly FoundMatch[] }[];
  /** Why there may be more. */
  readonly stopped: Stopped | 'limit' | undefined;
}

/** Of lines that are answered, together. */
const mostShown = 256 * 1024;

/**
 * Searches the files of a session, in the order of their paths. Where something quicker can tell which files may hold a
 * match, only those are read; what is answered is read through the session's files either way.
 */
export async function grep(
  files: SessionFiles,
  query: GrepQuery,
  bounds?: SearchBounds,
  signal?: AbortSignal,
): Promise<GrepFound> {
  const budget = createBudget(bounds, signal);
  const { path: start, kind } = await files.stat(query.path);
  const found: { path: string; matches: FoundMatch[] }[] = [];
  const room = { characters: mostShown };
  let left = query.limit;
  const paths =
    kind === 'file' ? just(start) : pathsIn(files, start, { query, budget, signal, isFolder: kind === 'folder' });
  for await (const { path, bytes } of readAhead(files, paths)) {
    // One more than is told, to know whether there is more.
    const matches = await grepFile(bytes, { ...query, limit: left + 1, room, budget });
    if (matches.length > left) {
      if (left > 0) found.push({ path, matches: matches.slice(0, left) });
      return { files: found, stopped: 'limit' };
    }
    if (matches.length > 0) found.push({ path, matches });
    left -= matches.length;
    if (room.characters < 0) return { files: found, stopped: 'limit' };
    if (!(await budget.goesOn())) break;
  }
  return { files: found, stopped: budget.stopped };
}

interface Searching {
  /** What is none is refused by whoever lists it. */
  readonly isFolder: boolean;
  readonly query: GrepQuery;
  readonly budget: Budget;
  readonly signal: AbortSignal | undefined;
}

async function* pathsIn(files: SessionFiles, start: string, searching: Searching): AsyncGenerator<string> {
  const { query, budget, signal, isFolder } = searching;
  const { glob } = query;
  const isWanted = (path: string) => glob?.matches(below(start, path)) ?? true;
  const judge = createJudge(files, start, budget);
  const rulesOf = (ignoreFiles: readonly string[]) => rulesFrom(ignoreFiles, { judge, start, budget });
  const quick = isFolder ? files.candidates : undefined;
  const told = await quick?.({ rust: query.expression.rust, path: start, glob, rulesOf, signal });
  if (told !== undefined) {
    for (const path of inOrder(told)) {
      if (budget.count() && !(await budget.goesOn())) return;
      if (isWanted(path) && !(await judge.isLeftOut(path, false))) yield path;
    }
    return;
  }
  const enter = glob === undefined ? undefined : (folder: string) => glob.mayHold(below(start, folder));
  for await (const entries of walkFiles(files, start, { budget, ...(enter === undefined ? {} : { enter }) })) {
    for (const { path, kind, closed, unrepresentable } of entries) {
      if (kind === 'file' && !closed && !unrepresentable && isWanted(path)) yield path;
    }
  }
}

async function* just(path: string): AsyncGenerator<string> {
  yield path;
}

/** Names in order, folder by folder, as a walk comes upon them: what ends a name comes before all that goes on with it. */
function orderOf(path: string): string {
  return path.replaceAll('/', '\0');
}

function inOrder(paths: readonly string[]): string[] {
  const keyed = paths.map((path) => ({ path, key: orderOf(path) }));
  return keyed.sort((one, other) => (one.key < other.key ? -1 : 1)).map(({ path }) => path);
}
