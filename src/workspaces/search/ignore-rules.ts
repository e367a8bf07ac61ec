import type { GlobRoom } from '../../lib/text/glob.ts';
import type { ListedEntry } from '../backends/backend.ts';
import type { SessionFiles } from '../session-files.ts';
import { type IgnoreFile, maxRulesSize, parseIgnoreFile } from './ignore-file.ts';
import type { SearchBudget } from './search-budget.ts';

/** Says of a path what a walk would have found out on its way there. */
interface IgnoreJudge {
  /** What a folder and those above it say together. */
  levelOf(folder: string): Promise<IgnoreLevel>;
  /** Whether a walk would have passed a path over. */
  isSkipped(path: string, isFolder: boolean): Promise<boolean>;
}

interface RuleParts {
  readonly judge: IgnoreJudge;
  readonly start: string;
  readonly budget: SearchBudget;
}

/** More would take longer to match than they save. */
const maxLines = 10_000;

const byDepth = (one: string, other: string): number => one.split('/').length - other.split('/').length;

/** What the ignore files of a folder and of those above it say together. */
export interface IgnoreLevel {
  readonly folder: string;
  readonly above: IgnoreLevel | undefined;
  readonly own: IgnoreFile | undefined;
  /** `.git/info/exclude`: asked when no `.gitignore` says anything. */
  readonly exclude: IgnoreFile | undefined;
  /** What is left for the levels below: each path is held against all of them. */
  readonly remaining: GlobRoom;
}

/** Of the names that say where there may be rules, those that a folder has. */
export type RuleNames = ReadonlySet<string>;

/**
 * In a worktree the repository is a file, and its rules lie elsewhere. A link in place of a `.gitignore` says nothing, as
 * in git; neither does a pipe, a socket or a folder.
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
      const says = each[which]?.(below(each.folder, path), isFolder);
      if (says !== undefined) return says === 'ignored';
    }
  }
  return false;
}

export interface EnterOptions {
  /** Of the search, which may be over while rules are read. */
  readonly budget?: SearchBudget | undefined;
  /** The names in the folder, so that nothing is asked for that is not there. */
  readonly ruleNames?: RuleNames;
}

/** The next level down. */
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

/** The level of a folder, with those of all folders above it. */
export async function readLevelsAbove(
  files: Pick<SessionFiles, 'open' | 'list'>,
  folder: string,
  budget: SearchBudget,
): Promise<IgnoreLevel | undefined> {
  let level: IgnoreLevel | undefined;
  for (const each of listFoldersAbove(folder)) level = await enterLevel(files, each, level, { budget });
  return level;
}

/** From the workspace down; the folder itself is not among them. */
export function listFoldersAbove(path: string): string[] {
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
  maxSize: GlobRoom,
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
    // Not there, or not to be read: then it says nothing.
    return undefined;
  }
}

export function joinPath(folder: string, name: string): string {
  return folder === '.' ? name : `${folder}/${name}`;
}

export function below(folder: string, path: string): string {
  return folder === '.' ? path : path.slice(folder.length + 1);
}

export function isBelow(folder: string, path: string): boolean {
  return path !== '.' && (folder === '.' || path.startsWith(`${folder}/`));
}

/** A judge for a search that begins at a folder: that one itself is never left out. */
export function createIgnoreJudge(files: SessionFiles, start: string, budget: SearchBudget): IgnoreJudge {
  const levels = new Map<string, Promise<IgnoreLevel>>();
  const levelOf = (folder: string): Promise<IgnoreLevel> => {
    const above = listFoldersAbove(folder).at(-1);
    const known = levels.get(folder);
    if (known !== undefined) return known;
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
 * What the ignore files at these paths, and those above the start, say together: lines of one file in the workspace
 * itself. Undefined where that cannot be said: then nothing is left out. Names that are no ignore files say nothing.
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
  // The last line that fits decides: so those that decide come last.
  const lines: string[] = [];
  for (const which of ['exclude', 'own'] as const) {
    for (const level of new Set(levels)) {
      const seen = level[which]?.toRootLines(level.folder) ?? (level[which] === undefined ? [] : undefined);
      if (seen === undefined || lines.length + seen.length > maxLines) return undefined;
      lines.push(...seen);
    }
  }
  return lines;
}

/** The folder that an ignore file is about. */
function findRuleFolder(path: string): string[] {
  for (const name of [ignoreFileName, excludeFile]) {
    if (path === name) return ['.'];
    if (path.endsWith(`/${name}`)) return [path.slice(0, -name.length - 1)];
  }
  return [];
}
