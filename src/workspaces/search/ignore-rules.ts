import { compileGlob, type Glob, type GlobLimits } from '../../lib/text/glob.ts';
import type { ListedEntry } from '../backends/backend.ts';
import type { SessionFiles } from '../session-files.ts';
import type { SearchBudget } from './search-budget.ts';

/** Judges a path as a walk to it would. */
interface IgnoreJudge {
  levelOf(folder: string): Promise<IgnoreLevel>;
  /** Tells whether a walk would skip the path. */
  isSkipped(path: string, isFolder: boolean): Promise<boolean>;
}

interface RuleParts {
  readonly judge: IgnoreJudge;
  readonly start: string;
  readonly budget: SearchBudget;
}

/** More lines would take longer to match than they save. */
const maxCombinedLines = 10_000;

const byDepth = (one: string, other: string): number => one.split('/').length - other.split('/').length;

/** The combined ignore files of a folder and its parents. */
export interface IgnoreLevel {
  readonly folder: string;
  readonly above: IgnoreLevel | undefined;
  readonly own: IgnoreFile | undefined;
  /** The rules of `.git/info/exclude`, used when no `.gitignore` decides. */
  readonly exclude: IgnoreFile | undefined;
  /** The remaining size for levels below: each path is matched against all of them. */
  readonly remaining: GlobLimits;
}

/** The names in a folder that may hold rules. */
export type RuleNames = ReadonlySet<string>;

/**
 * Finds names that may hold rules. In a worktree `.git` is a file, and its rules lie elsewhere. As in git, a link in
 * place of a `.gitignore` has no effect; neither has a pipe, a socket or a folder.
 */
export function findRuleNames(entries: readonly ListedEntry[]): RuleNames {
  const present = new Set<string>();
  for (const { name, kind } of entries) {
    const isRules = name === ignoreFileName && kind === 'file';
    if (isRules || (name === repositoryName && kind === 'folder')) present.add(name);
  }
  return present;
}

const maxFileBytes = 256 * 1024;
export const repositoryName = '.git';
export const ignoreFileName = '.gitignore';
export const excludeFile = `${repositoryName}/info/exclude`;
const maxNames = 100_000;

export function isIgnored(level: IgnoreLevel, path: string, isFolder: boolean): boolean {
  for (const which of ['own', 'exclude'] as const) {
    for (let each: IgnoreLevel | undefined = level; each !== undefined; each = each.above) {
      const says = each[which]?.(relativeTo(each.folder, path), isFolder);
      if (says !== undefined) return says === 'ignored';
    }
  }
  return false;
}

export interface EnterOptions {
  /** The budget of the search, which may end while rules are read. */
  readonly budget?: SearchBudget | undefined;
  /** The rule files in the folder, if known, so that no missing file is opened. */
  readonly ruleNames?: RuleNames;
}

export async function enterLevel(
  files: Pick<SessionFiles, 'open' | 'list'>,
  folder: string,
  above: IgnoreLevel | undefined,
  { budget, ruleNames }: EnterOptions = {},
): Promise<IgnoreLevel> {
  const names = ruleNames ?? (await readRuleNames(files, folder));
  let remaining = above?.remaining ?? maxRulesSize;
  const readFrom = async (path: string) => {
    const rules = await readIgnoreRules(files, path, remaining, budget);
    if (rules !== undefined) {
      const { globs, characters } = rules.size;
      remaining = { globs: remaining.globs - globs, characters: remaining.characters - characters };
    }
    return rules;
  };
  const own = names.has(ignoreFileName) ? await readFrom(joinPath(folder, ignoreFileName)) : undefined;
  const exclude = names.has(repositoryName) ? await readFrom(joinPath(folder, excludeFile)) : undefined;
  if (own === undefined && exclude === undefined && above !== undefined) return above;
  return { folder, above, own, exclude, remaining };
}

export async function readLevelsAbove(
  files: Pick<SessionFiles, 'open' | 'list'>,
  folder: string,
  budget: SearchBudget,
): Promise<IgnoreLevel | undefined> {
  let level: IgnoreLevel | undefined;
  for (const each of listFoldersAbove(folder)) level = await enterLevel(files, each, level, { budget });
  return level;
}

/** Lists the parents of a path from the workspace down. */
function listFoldersAbove(path: string): string[] {
  if (path === '.') return [];
  const names = path.split('/');
  return ['.', ...names.slice(0, -1).map((_, index) => names.slice(0, index + 1).join('/'))];
}

async function readRuleNames(files: Pick<SessionFiles, 'list'>, folder: string): Promise<RuleNames> {
  try {
    return findRuleNames((await files.list(folder, { limit: maxNames })).entries);
  } catch {
    return new Set();
  }
}

async function readIgnoreRules(
  files: Pick<SessionFiles, 'open'>,
  path: string,
  maxSize: GlobLimits,
  budget: SearchBudget | undefined,
): Promise<IgnoreFile | undefined> {
  try {
    const file = await files.open(path);
    try {
      return await parseIgnoreFile(Buffer.from(await file.read(0, maxFileBytes)).toString(), maxSize, budget);
    } finally {
      await file.close();
    }
  } catch {
    // A missing or unreadable file has no rules.
    return undefined;
  }
}

export function joinPath(folder: string, name: string): string {
  return folder === '.' ? name : `${folder}/${name}`;
}

export function relativeTo(folder: string, path: string): string {
  return folder === '.' ? path : path.slice(folder.length + 1);
}

function isBelow(folder: string, path: string): boolean {
  return path !== '.' && (folder === '.' || path.startsWith(`${folder}/`));
}

/** Creates a judge for a search from a folder, which itself is never skipped. */
export function createIgnoreJudge(
  files: Pick<SessionFiles, 'open' | 'list'>,
  start: string,
  budget: SearchBudget,
): IgnoreJudge {
  const levels = new Map<string, Promise<IgnoreLevel>>();
  const levelOf = (folder: string): Promise<IgnoreLevel> => {
    const known = levels.get(folder);
    if (known !== undefined) return known;
    const above = listFoldersAbove(folder).at(-1);
    const level = (async () =>
      enterLevel(files, folder, above === undefined ? undefined : await levelOf(above), { budget }))();
    levels.set(folder, level);
    return level;
  };
  return {
    levelOf,
    async isSkipped(path, isFolder) {
      for (const each of [...listFoldersAbove(path), path].filter((one) => isBelow(start, one))) {
        if (each.split('/').at(-1) === repositoryName) return true;
        const level = await levelOf(listFoldersAbove(each).at(-1) as string);
        if (isIgnored(level, each, isFolder || each !== path)) return true;
      }
      return false;
    },
  };
}

/**
 * Combines the ignore files at these paths and above the start into lines for one file in the workspace root. Undefined
 * where that is impossible: then nothing is left out. Paths of other files have no effect.
 */
export async function combineRules(
  ignoreFiles: readonly string[],
  { judge, start, budget }: RuleParts,
): Promise<readonly string[] | undefined> {
  const folders = new Set([...listFoldersAbove(start), start]);
  for (const folder of ignoreFiles.flatMap(findRuleFolder).sort(byDepth)) {
    if (budget.count() && !(await budget.canContinue())) return undefined;
    if (isBelow(start, folder) && !(await judge.isSkipped(folder, true))) folders.add(folder);
  }
  const levels: IgnoreLevel[] = [];
  for (const folder of folders) levels.push(await judge.levelOf(folder));
  // The last matching line decides, so the strongest rules come last.
  const lines: string[] = [];
  for (const which of ['exclude', 'own'] as const) {
    for (const level of new Set(levels)) {
      const seen = level[which]?.toRootLines(level.folder) ?? (level[which] === undefined ? [] : undefined);
      if (seen === undefined || lines.length + seen.length > maxCombinedLines) return undefined;
      lines.push(...seen);
    }
  }
  return lines;
}

function findRuleFolder(path: string): string[] {
  for (const name of [ignoreFileName, excludeFile]) {
    if (path === name) return ['.'];
    if (path.endsWith(`/${name}`)) return [path.slice(0, -name.length - 1)];
  }
  return [];
}

/** The verdict of one `.gitignore` on paths below its folder; undefined where no line matches. */
interface IgnoreFile {
  (path: string, isFolder: boolean): 'ignored' | 'wanted' | undefined;
  /** The number of globs and their total length, braces expanded. */
  readonly size: GlobLimits;
  /** Returns its lines as they would be in the workspace root; undefined where that is impossible. */
  toRootLines(folder: string): readonly string[] | undefined;
}

interface IgnoreLine {
  /** The pattern without its leading and trailing signs. */
  readonly body: string;
  readonly isFromTop: boolean;
  readonly glob: Glob;
  readonly onlyFolders: boolean;
  readonly verdict: 'ignored' | 'wanted';
}

/** Agents can write these files, and every path is matched against them. */
const maxFileLines = 1000;
const maxCharacters = 65_536;
/** The largest total size of the ignore files for one path, braces expanded. */
const maxRulesSize: GlobLimits = { globs: 2000, characters: maxCharacters };
/** The number of lines between two checks of the budget. */
const linesPerCheck = 32;

/**
 * Parses lines as git does, and as ripgrep does where the two differ, so that both searches agree. The last matching
 * line decides. Lines beyond the size limit are skipped. When the search ends meanwhile, the rest is not read.
 */
export async function parseIgnoreFile(
  text: string,
  maxSize = maxRulesSize,
  budget?: Pick<SearchBudget, 'canContinue'>,
): Promise<IgnoreFile> {
  const parsed: IgnoreLine[] = [];
  let { globs, characters } = maxSize;
  const textLines = text
    .replace(/^\ufeff/, '')
    .slice(0, maxCharacters)
    .split('\n', maxFileLines);
  for (const [index, each] of textLines.entries()) {
    if (globs <= 0 || characters <= 0) break;
    const isDue = each.includes('{') || index % linesPerCheck === 0;
    if (isDue && budget !== undefined && !(await budget.canContinue())) break;
    const line = parseLine(each, { globs, characters });
    if (line === undefined) continue;
    globs -= line.glob.names.length;
    characters -= line.glob.characters;
    parsed.push(line);
  }
  const lines = parsed.toReversed();
  const findVerdict = (path: string, isFolder: boolean) => {
    const bytes = toByteString(path);
    return lines.find((line) => (isFolder || !line.onlyFolders) && line.glob.matches(bytes))?.verdict;
  };
  const toRootLines = (folder: string) =>
    /[\n\r]/.test(folder) ? undefined : parsed.map((line) => toRootLine(folder, line));
  const size = { globs: maxSize.globs - globs, characters: maxSize.characters - characters };
  return Object.assign(findVerdict, { size, toRootLines });
}

function toRootLine(folder: string, { body, isFromTop, onlyFolders, verdict }: IgnoreLine): string {
  const prefix = folder === '.' ? '' : `/${folder.replace(/[\\*?[\]{}]/g, '\\$&')}`;
  const separator = isFromTop || body.includes('/') ? '/' : '/**/';
  return `${verdict === 'wanted' ? '!' : ''}${prefix}${separator}${body}${onlyFolders ? '/' : ''}`;
}

/** Converts to one character per byte, since `?` and `[…]` match one byte. */
function toByteString(text: string): string {
  return /^[\x00-\x7f]*$/.test(text) ? text : Buffer.from(text).toString('latin1');
}

function parseLine(text: string, maxSize: GlobLimits): IgnoreLine | undefined {
  if (text.startsWith('#')) return undefined;
  let line = /\\ $/.test(text) ? text : text.trimEnd();
  const isEscaped = /^\\[!#]/.test(line);
  const verdict = !isEscaped && line.startsWith('!') ? 'wanted' : 'ignored';
  if (isEscaped || verdict === 'wanted') line = line.slice(1);
  const isFromTop = !isEscaped && line.startsWith('/');
  if (isFromTop) line = line.slice(1);
  const onlyFolders = line.endsWith('/');
  if (onlyFolders) line = line.replace(/\\?\/$/, '');
  if (line === '') return undefined;
  try {
    const glob = compileGlob(toByteString(line), { matchAnyFolder: !isFromTop, limits: maxSize });
    return { body: line, glob, isFromTop, onlyFolders, verdict };
  } catch {
    // Invalid lines are skipped, as in git.
    return undefined;
  }
}
