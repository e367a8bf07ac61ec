import * as z from 'zod';
import { AmbitError } from '../../errors.ts';
import { escapeControls } from '../../lib/text/escape-controls.ts';
import { splitQuestion, splitWords } from '../../lib/text/split-words.ts';
import { defineTool, sessionArgument, type Tool, withBlocks } from '../../sessions/tools/tool.ts';
import type { CodeIndexes } from '../codebase/code-indexes.ts';
import {
  type FolderIndex,
  type IndexProgress,
  isHiddenPath,
  markOf,
  maxIndexedBytes,
} from '../codebase/folder-index.ts';
import type { Candidate } from '../codebase/index-database.ts';
import { IndexError } from '../codebase/index-thread.ts';
import { maxGap, type RankedMatch, type RankOptions, type ReadPassage, rankMatches } from '../codebase/rank-matches.ts';
import { eachPassage, type Passage, splitLines, takePassage } from '../codebase/split-passages.ts';
import { parseExpression } from '../search/expression.ts';
import { decodeText, findPaths, readAhead } from '../search/grep.ts';
import { createLimitPerKey } from '../search/ripgrep.ts';
import { createSearchBudget } from '../search/search-budget.ts';
import type { SessionFiles } from '../session-files.ts';
import type { FileAccess } from './file-access.ts';
import { folderArgument } from './file-schemas.ts';
import { toOneLine } from './session-grep-search.ts';

const defaultMatches = 10;
const maxMatches = 50;

export function sessionCodebaseSearch(access: FileAccess, indexes: CodeIndexes): Tool {
  return defineTool({
    name: 'session_codebase_search',
    title: 'Search the codebase',
    description:
      'Finds the passages of files in the workspace that fit a question in words, the best first. Use it when you do not know the exact text; use session_grep_search when you do. Skips hidden files, binary files, files over 1 MiB and files ignored by .gitignore.',
    effect: 'reads',
    input: z.strictObject({
      session: sessionArgument,
      query: z
        .string()
        .min(1)
        .max(1000)
        .describe('What you look for, in words: "where are expired tokens refused". Names of functions are fine too.'),
      path: folderArgument.describe('Folder or file to search. Default: the workspace.'),
      limit: z
        .number()
        .int()
        .min(1)
        .max(maxMatches)
        .optional()
        .describe(`Maximum number of passages. Default: ${defaultMatches}.`),
    }),
    output: z.strictObject({
      matches: z.array(
        z.strictObject({
          path: z.string().describe('Relative to the workspace.'),
          startLine: z.number().int(),
          endLine: z.number().int(),
          text: z.string(),
          why: z.string().describe('Why the passage was found.'),
        }),
      ),
      index: z.strictObject({
        state: z
          .enum(['ready', 'building', 'unavailable'])
          .describe('While it is building, only a part of the files was searched. Ask again for a better answer.'),
        files: z.number().int().describe('Number of indexed files.'),
        total: z.number().int().describe('Number of files to index.'),
        partial: z.boolean().describe('Whether files were left out because there are too many.'),
      }),
    }),
    async run({ session, query, path = '.', limit = defaultMatches }, caller) {
      return access.withFiles(session, caller, 'session_codebase_search', async (files) => {
        const { matches, index } = await searchCodebase(files, indexes, { question: query, path, limit });
        const found = matches.length === 0 ? ['No passage fits.'] : matches.map(renderMatch);
        return withBlocks(
          { matches: [...matches], index: { ...index } },
          { type: 'text', text: [...found, ...explainIndex(index)].join('\n\n') },
        );
      });
    },
  });
}

/** Renders a passage with the numbers of its lines, so that the content of a file cannot look like another passage. */
function renderMatch({ path, startLine, endLine, text, why }: CodebaseMatch): string {
  const lines = text.split('\n').map((line, index) => `${startLine + index}: ${toOneLine(line)}`);
  return [`${escapeControls(path)}:${startLine}-${endLine} (${escapeControls(why)})`, ...lines].join('\n');
}

function explainIndex({ state, files, total, partial }: CodebaseResult['index']): string[] {
  if (state === 'building') {
    const progress = total === 0 ? '' : ` ${files} of ${total} files are done.`;
    return [`[The index is being built, so this answer may be incomplete.${progress} Ask again in some seconds.]`];
  }
  if (state === 'unavailable') return ['[There is no index, so this answer may be incomplete.]'];
  return partial ? ['[The workspace has too many files, and some are not indexed. Use session_grep_search too.]'] : [];
}

export interface CodebaseQuery {
  readonly question: string;
  /** A folder, or one file. */
  readonly path: string;
  readonly limit: number;
}

/** A passage of a file, with the reason why it was found. */
interface CodebaseMatch {
  readonly path: string;
  readonly startLine: number;
  readonly endLine: number;
  readonly text: string;
  readonly why: string;
}

export interface CodebaseResult {
  readonly matches: readonly CodebaseMatch[];
  readonly index: IndexProgress;
}

interface SearchedQuestion {
  readonly terms: readonly string[];
  readonly question: string;
  /** The resolved path of the folder or file. */
  readonly start: string;
  readonly isFolder: boolean;
}

/** The passages to rank, and how often the words occur. */
interface FoundPassages extends Omit<RankOptions, 'terms' | 'limit'> {
  readonly read: readonly ReadPassage[];
}

/** The time to wait for an index that is not complete, to find files without it, and to read them: below two seconds. */
const waitMs = 300;
const gatherMs = 300;
const readMs = 400;
const maxCandidates = 100;
/** Shorter passages are shown with the lines that follow. */
const minShownLines = 20;
const maxShownLine = 500;
const maxShown = 64 * 1024;
const maxReadPassages = 1500;
/** The text of all passages that are ranked for one question, which is in memory at once. */
const maxReadText = 2 * 1024 * 1024;

/** The number of questions that are answered at a time: for one folder, so that others have their turn, and in all. */
const limitPerFolder = createLimitPerKey(2);
const limitAll = createLimitPerKey(4);
const withTurn = <T>(key: string, work: () => Promise<T>): Promise<T> => limitPerFolder(key, () => limitAll('', work));

/**
 * Finds the passages that answer a question in words. The index only says where to look: every passage is read again
 * through the files of the session, and what the session may not read is not shown.
 */
export async function searchCodebase(
  files: SessionFiles,
  indexes: CodeIndexes,
  { question, path, limit }: CodebaseQuery,
): Promise<CodebaseResult> {
  const terms = splitQuestion(question);
  if (terms.length === 0) {
    throw new AmbitError('REQUEST_INVALID', {
      what: 'The query contains no word.',
      hint: 'Describe in words what the code does, or name a part of it.',
    });
  }
  const { path: start, kind } = await files.stat(path);
  const index = indexes.open(files.place);
  await prepareIndex(index, files);
  const query = { terms, question, start, isFolder: kind === 'folder' };
  return withTurn(files.place.key, async () => {
    const found =
      index.progress.state === 'ready'
        ? await searchIndex(index, files, query).catch((error) => searchWithout(error, files, query))
        : await searchIncomplete(index, files, query);
    const ranked = await rankMatches(found.read, { ...found, terms, limit });
    return { matches: showMatches(ranked, found.read), index: index.progress };
  });
}

/** Starts to read what has changed, and waits for it only if the index is not complete yet. */
async function prepareIndex(index: FolderIndex, { place }: SessionFiles): Promise<void> {
  const refreshed = index.refresh(place.inBackground);
  if (!index.isCurrent) await waitAtMost(refreshed, waitMs);
  if (index.progress.state === 'ready') await index.applyChanges(place.inBackground);
}

async function waitAtMost(work: Promise<void>, ms: number): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, ms);
  });
  await Promise.race([work, late]);
  clearTimeout(timer);
}

async function searchIndex(
  index: FolderIndex,
  files: SessionFiles,
  { terms, question, start }: SearchedQuestion,
): Promise<FoundPassages> {
  const found = await index.search({ terms, path: start, limit: maxCandidates }, question);
  const { byWords, byMeaning, frequencies, passages } = found;
  const read = await readCandidates(files, [...byWords, ...byMeaning], terms);
  if (byMeaning.length === 0) return { read, frequencies, passages };
  const meaningRanks = new Map(byMeaning.map((each, rank) => [`${each.path}\0${each.startLine}`, rank]));
  return { read, frequencies, passages, meaningRanks };
}

/** Collects passages for the ranking up to a size, each with the lines to show. The files themselves are not kept. */
function createPassageCollector() {
  const read: ReadPassage[] = [];
  let room = maxReadText;
  return {
    read,
    add(path: string, lines: readonly string[], passage: Passage): void {
      const { startLine, endLine, text } = passage;
      room -= text.length;
      if (room < 0 || read.length >= maxReadPassages || text.trim() === '') return;
      // Passages that lie together are shown with the lines between them.
      const last = Math.max(endLine, startLine + minShownLines - 1) + maxGap;
      const shown = lines
        .slice(startLine - 1, last)
        .map(cutLine)
        .join('\n');
      read.push({ path, ...passage, shown });
    },
  };
}

/** Returns the words of the question that a passage contains. */
function findTerms(terms: readonly string[], path: string, { text }: Passage): string[] {
  const words = new Set(splitWords(`${path} ${text}`));
  return terms.filter((term) => words.has(term));
}

/** Returns the lines of a file; undefined if it is not searched. */
function readLines(bytes: Uint8Array): readonly string[] | undefined {
  const text = bytes.length > maxIndexedBytes ? undefined : decodeText(bytes)?.text;
  return text === undefined ? undefined : splitLines(text);
}

/** Reads the passages of candidates. A file that has changed since it was indexed is split anew, while there is time. */
async function readCandidates(
  files: SessionFiles,
  candidates: readonly Candidate[],
  terms: readonly string[],
): Promise<readonly ReadPassage[]> {
  const byPath = new Map<string, Map<number, Candidate>>();
  for (const candidate of candidates) {
    const ofFile = byPath.get(candidate.path) ?? new Map<number, Candidate>();
    byPath.set(candidate.path, ofFile.set(candidate.startLine, candidate));
  }
  const { read, add } = createPassageCollector();
  const budget = createSearchBudget({ entries: maxReadPassages, ms: readMs });
  for await (const { path, bytes, modifiedMs } of readAhead(files, byPath.keys())) {
    const hasTime = await budget.canContinue();
    const lines = readLines(bytes);
    if (lines === undefined) continue;
    const mark = markOf({ bytes: bytes.length, modifiedMs });
    const ofFile = [...(byPath.get(path)?.values() ?? [])];
    if (ofFile.every((each) => each.mark === mark)) {
      for (const { startLine, endLine, scope } of ofFile)
        add(path, lines, takePassage(lines, startLine, endLine, scope));
    } else if (hasTime) {
      for (const passage of eachPassage(lines)) {
        if (findTerms(terms, path, passage).length > 0) add(path, lines, passage);
        if (!(await budget.canContinue())) break;
      }
    }
  }
  return read;
}

/** Searches by reading files if the index has failed. */
function searchWithout(error: unknown, files: SessionFiles, query: SearchedQuestion): Promise<FoundPassages> {
  if (error instanceof IndexError) return searchByReading(files, query);
  throw error;
}

/**
 * Searches while the index is incomplete, for a limited time: in the part that is indexed, and by reading files that
 * contain words of the question, those with words in the path first.
 */
async function searchIncomplete(
  index: FolderIndex,
  files: SessionFiles,
  query: SearchedQuestion,
): Promise<FoundPassages> {
  const [indexed, read] = await Promise.all([
    searchIndex(index, files, query).catch(() => undefined),
    searchByReading(files, query),
  ]);
  if (indexed === undefined) return read;
  const { frequencies, passages } = indexed.passages > read.passages ? indexed : read;
  const known = new Set(indexed.read.map(({ path }) => path));
  const further = read.read.filter(({ path }) => !known.has(path));
  return { ...indexed, read: [...indexed.read, ...further], frequencies, passages };
}

async function searchByReading(files: SessionFiles, query: SearchedQuestion): Promise<FoundPassages> {
  const { terms } = query;
  const paths = await findPathsByWords(files, query);
  const budget = createSearchBudget({ entries: maxReadPassages, ms: readMs });
  const { read, add } = createPassageCollector();
  // Each word has an entry: "constructor" is also the name of a property that all objects have.
  const frequencies: Record<string, number> = Object.fromEntries(terms.map((term) => [term, 0]));
  let passages = 0;
  for await (const { path, bytes } of readAhead(files, paths)) {
    const lines = readLines(bytes) ?? [];
    for (const passage of eachPassage(lines)) {
      passages++;
      const own = findTerms(terms, path, passage);
      for (const term of own) frequencies[term] = (frequencies[term] ?? 0) + 1;
      if (own.length > 0) add(path, lines, passage);
      if (!(await budget.canContinue())) break;
    }
    if (!(await budget.canContinue())) break;
  }
  return { read, frequencies, passages };
}

/** Finds files that contain a word of the question, those with such words in the path first. */
async function findPathsByWords(files: SessionFiles, { terms, start, isFolder }: SearchedQuestion): Promise<string[]> {
  if (!isFolder) return [start];
  const expression = parseExpression(terms.join('|'), false);
  const found: string[] = [];
  const gather = async (from: SessionFiles, signal: AbortSignal) => {
    const budget = createSearchBudget({ entries: 200_000, ms: gatherMs });
    const parts = { query: { expression }, budget, signal, isFolder };
    for await (const path of findPaths(from, start, parts)) if (!isHiddenPath(path)) found.push(path);
  };
  try {
    await gather(files, AbortSignal.timeout(gatherMs));
  } catch {
    // Finding candidates took too long, so all files are candidates.
    if (found.length === 0) await gather({ ...files, candidates: undefined }, neverAborted);
  }
  const wordsIn = (path: string) => new Set(splitWords(path).filter((word) => terms.includes(word))).size;
  const pace = createSearchBudget({ entries: Number.POSITIVE_INFINITY, ms: Number.POSITIVE_INFINITY });
  const ranked: { path: string; words: number }[] = [];
  for (const path of found) {
    ranked.push({ path, words: wordsIn(path) });
    if (pace.count()) await pace.canContinue();
  }
  return ranked.sort((one, other) => other.words - one.words).map(({ path }) => path);
}

const neverAborted = new AbortController().signal;

function showMatches(ranked: readonly RankedMatch[], read: readonly ReadPassage[]): CodebaseMatch[] {
  const shown: CodebaseMatch[] = [];
  let left = maxShown;
  for (const { path, startLine, endLine, why } of ranked) {
    const last = Math.max(endLine, startLine + minShownLines - 1);
    const inside = read.filter((each) => each.path === path && each.startLine >= startLine && each.startLine <= last);
    const lines: string[] = [];
    for (const each of inside) {
      for (const [at, line] of each.shown.split('\n').entries()) lines[each.startLine - startLine + at] = line;
    }
    const own = lines.slice(0, last - startLine + 1);
    const text = own.join('\n');
    left -= text.length;
    if (left < 0) break;
    shown.push({ path, startLine, endLine: startLine + own.length - 1, text, why });
  }
  return shown;
}

function cutLine(line: string): string {
  const text = line.replace(/\r$/, '');
  return text.length <= maxShownLine ? text : `${text.slice(0, maxShownLine).replace(/[\ud800-\udbff]$/, '')}…`;
}
