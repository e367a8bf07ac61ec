import { isAmbitError } from '../../errors.ts';
import type { Glob } from '../../lib/text/glob.ts';
import type { ListedEntry, WorkspaceBackend } from '../backends/backend.ts';
import type { FileKind } from '../saferoot/file-info.ts';
import type { SessionFiles } from '../session-files.ts';
import {
  enterLevel,
  findRuleNames,
  type IgnoreLevel,
  isIgnored,
  joinPath,
  readLevelsAbove,
  relativeTo,
  repositoryName,
} from './ignore-rules.ts';
import {
  createSearchBudget,
  maxPathDepth,
  type SearchBudget,
  type SearchLimits,
  type StopReason,
} from './search-budget.ts';

interface FindResult {
  /** Sorted by time, the latest first. */
  readonly files: readonly WalkedEntry[];
  readonly total: number;
  readonly stopped: StopReason | 'limit' | undefined;
}

interface FindQuery {
  /** Matched against paths relative to `path`. */
  readonly glob: Glob;
  readonly path: string;
  readonly limit: number;
}

export interface WalkedEntry {
  readonly path: string;
  readonly kind: FileKind;
  readonly bytes: number | undefined;
  readonly modifiedMs: number | undefined;
  readonly ignored: boolean;
  /** Sessions may not read it. */
  readonly closed: boolean;
  /** No path can contain its name. */
  readonly unrepresentable: boolean;
}

type WalkedFiles = Pick<WorkspaceBackend, 'list' | 'open'>;

export interface FileWalkOptions {
  readonly budget: SearchBudget;
  /** The number of folder levels; all by default. */
  readonly depth?: number;
  /** Includes ignored entries. The repository itself is listed but not entered. */
  readonly includeIgnored?: boolean;
  readonly facts?: boolean;
  /** Continues after this path, relative to the start, whether it still exists or not. */
  readonly after?: string;
  /** Decides whether a folder is entered. */
  readonly enter?: (folder: string) => boolean;
}

/** The largest number of entries in one folder, which are sorted in memory. */
const maxInFolder = 100_000;

/**
 * Walks everything below a folder, folders before their entries, sorted by name. Links are not followed, and an entry
 * that has become a link is skipped. Throws when the start cannot be listed. Entries come in batches, since waiting for
 * each takes longer than handling it.
 */
export async function* walkFiles(
  files: WalkedFiles,
  start: string,
  options: FileWalkOptions,
): AsyncGenerator<readonly WalkedEntry[]> {
  const after = options.after?.split('/') ?? [];
  const listed = await listFolder(files, start, options);
  const above = await readLevelsAbove(files, listed.path, options.budget);
  yield* walkFolder(files, { folder: listed.path, listed, above, ignored: false, depth: 1, after }, options);
}

interface WalkState {
  readonly folder: string;
  readonly listed: Awaited<ReturnType<SessionFiles['list']>>;
  readonly above: IgnoreLevel | undefined;
  /** All entries of an ignored folder are ignored. */
  readonly ignored: boolean;
  readonly depth: number;
  readonly after: readonly string[];
}

async function* walkFolder(
  files: WalkedFiles,
  state: WalkState,
  options: FileWalkOptions,
): AsyncGenerator<WalkedEntry[]> {
  const { budget, includeIgnored = false } = options;
  const { folder, listed, depth } = state;
  if (listed.more) budget.markIncomplete('entries');
  const level = await enterLevel(files, folder, state.above, { budget, ruleNames: findRuleNames(listed.entries) });
  // Rules that were not read completely must not decide.
  if (!(await budget.canContinue())) return;
  const [resume, ...rest] = state.after;
  let batch: WalkedEntry[] = [];
  for (const entry of [...listed.entries].sort(compareNames)) {
    if (resume !== undefined && entry.name < resume) continue;
    if (budget.count() && !(await budget.canContinue())) break;
    const path = joinPath(folder, entry.name);
    const isFolder = entry.kind === 'folder';
    const isRepository = entry.name === repositoryName;
    const ignored = state.ignored || isRepository || isIgnored(level, path, isFolder);
    if (ignored && !includeIgnored) continue;
    const isPassed = entry.name === resume;
    if (!isPassed) batch.push(toWalkedEntry(path, entry, ignored));
    if (!isFolder || isRepository || entry.hidden || entry.unrepresentable) continue;
    if (depth >= (options.depth ?? Number.POSITIVE_INFINITY) || options.enter?.(path) === false) continue;
    if (path.split('/').length >= maxPathDepth) {
      budget.markIncomplete('depth');
      continue;
    }
    const inside = await listIfUnchanged(files, path, options);
    if (inside === undefined) continue;
    const next = { folder: path, listed: inside, above: level, ignored, depth: depth + 1, after: isPassed ? rest : [] };
    yield batch;
    batch = [];
    yield* walkFolder(files, next, options);
  }
  yield batch;
}

/** Returns undefined when the folder is gone, protected or replaced. */
async function listIfUnchanged(
  files: WalkedFiles,
  path: string,
  options: FileWalkOptions,
): Promise<WalkState['listed'] | undefined> {
  try {
    const listed = await listFolder(files, path, options);
    return listed.path === path ? listed : undefined;
  } catch (error) {
    if (isAmbitError(error)) return undefined;
    throw error;
  }
}

function listFolder(
  files: WalkedFiles,
  path: string,
  { facts = false }: FileWalkOptions,
): Promise<WalkState['listed']> {
  return files.list(path, { facts, limit: maxInFolder });
}

function toWalkedEntry(path: string, entry: ListedEntry, ignored: boolean): WalkedEntry {
  const { kind, bytes, modifiedMs, hidden: closed = false, unrepresentable = false } = entry;
  return { path, kind, bytes, modifiedMs, ignored, closed, unrepresentable };
}

function compareNames({ name: one }: ListedEntry, { name: other }: ListedEntry): number {
  return one < other ? -1 : one > other ? 1 : 0;
}

export async function findFiles(
  files: SessionFiles,
  { glob, path, limit }: FindQuery,
  bounds?: SearchLimits,
): Promise<FindResult> {
  const budget = createSearchBudget(bounds);
  const { path: start } = await files.stat(path);
  const enter = (folder: string) => glob.mayContain(relativeTo(start, folder));
  const found: WalkedEntry[] = [];
  for await (const entries of walkFiles(files, start, { budget, facts: true, enter })) {
    for (const entry of entries) {
      if ((entry.kind === 'file' || entry.kind === 'link') && glob.matches(relativeTo(start, entry.path)))
        found.push(entry);
    }
  }
  // Files of the same time stay in the order of the walk.
  found.sort((one, other) => (other.modifiedMs ?? 0) - (one.modifiedMs ?? 0));
  return {
    files: found.slice(0, limit),
    total: found.length,
    stopped: budget.stopped ?? (found.length > limit ? 'limit' : undefined),
  };
}
