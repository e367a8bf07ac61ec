import type { GlobRoom } from '../../lib/text/glob.ts';
import type { ListedEntry } from '../backends/backend.ts';
import type { SessionFiles } from '../session-files.ts';
import type { Budget } from './bounds.ts';
import { type IgnoreFile, ignoreRoom, readIgnoreFile } from './ignore-file.ts';

/** What the ignore files of a folder and of those above it say together. */
export interface IgnoreLevel {
  readonly folder: string;
  readonly above: IgnoreLevel | undefined;
  readonly own: IgnoreFile | undefined;
  /** `.git/info/exclude`: asked when no `.gitignore` says anything. */
  readonly exclude: IgnoreFile | undefined;
  /** What is left for the levels below: each path is held against all of them. */
  readonly room: GlobRoom;
}

/** Of the names that say where there may be rules, those that a folder has. */
export type Present = ReadonlySet<string>;

/**
 * In a worktree the repository is a file, and its rules lie elsewhere. A link in place of a `.gitignore` says nothing, as
 * in git; neither does a pipe, a socket or a folder.
 */
export function presentIn(entries: readonly ListedEntry[]): Present {
  const present = new Set<string>();
  for (const { name, kind } of entries) {
    const isRules = name === fileName && kind === 'file';
    if (isRules || (name === repositoryName && kind === 'folder')) present.add(name);
  }
  return present;
}

const largest = 256 * 1024;
export const repositoryName = '.git';
export const fileName = '.gitignore';
export const excludeFile = `${repositoryName}/info/exclude`;
const mostNames = 100_000;

export function isIgnored(level: IgnoreLevel, path: string, isFolder: boolean): boolean {
  for (const which of ['own', 'exclude'] as const) {
    for (let each: IgnoreLevel | undefined = level; each !== undefined; each = each.above) {
      const says = each[which]?.(below(each.folder, path), isFolder);
      if (says !== undefined) return says === 'ignored';
    }
  }
  return false;
}

export interface Entering {
  /** Of the search, which may be over while rules are read. */
  readonly budget?: Budget | undefined;
  /** The names in the folder, so that nothing is asked for that is not there. */
  readonly present?: Present;
}

/** The next level down. */
export async function enterLevel(
  files: Pick<SessionFiles, 'open' | 'list'>,
  folder: string,
  above: IgnoreLevel | undefined,
  { budget, present }: Entering = {},
): Promise<IgnoreLevel> {
  const there = present ?? (await namesIn(files, folder));
  let room = above?.room ?? ignoreRoom;
  const rulesIn = async (path: string) => {
    const rules = await readRules(files, path, room, budget);
    if (rules !== undefined) {
      const { globs, characters } = rules.size;
      room = { globs: room.globs - globs, characters: room.characters - characters };
    }
    return rules;
  };
  const own = there.has(fileName) ? await rulesIn(join(folder, fileName)) : undefined;
  const exclude = there.has(repositoryName) ? await rulesIn(join(folder, excludeFile)) : undefined;
  if (own === undefined && exclude === undefined && above !== undefined) return above;
  return { folder, above, own, exclude, room };
}

/** The level of a folder, with those of all folders above it. */
export async function levelOf(
  files: Pick<SessionFiles, 'open' | 'list'>,
  folder: string,
  budget: Budget,
): Promise<IgnoreLevel | undefined> {
  let level: IgnoreLevel | undefined;
  for (const each of foldersAbove(folder)) level = await enterLevel(files, each, level, { budget });
  return level;
}

/** From the workspace down; the folder itself is not among them. */
export function foldersAbove(path: string): string[] {
  if (path === '.') return [];
  const names = path.split('/');
  return ['.', ...names.slice(0, -1).map((_, index) => names.slice(0, index + 1).join('/'))];
}

async function namesIn(files: Pick<SessionFiles, 'list'>, folder: string): Promise<Present> {
  try {
    return presentIn((await files.list(folder, { limit: mostNames })).entries);
  } catch {
    return new Set();
  }
}

async function readRules(
  files: Pick<SessionFiles, 'open'>,
  path: string,
  room: GlobRoom,
  budget: Budget | undefined,
): Promise<IgnoreFile | undefined> {
  try {
    const file = await files.open(path);
    try {
      return await readIgnoreFile(Buffer.from(await file.read(0, largest)).toString(), room, budget);
    } finally {
      await file.close();
    }
  } catch {
    // Not there, or not to be read: then it says nothing.
    return undefined;
  }
}

export function join(folder: string, name: string): string {
  return folder === '.' ? name : `${folder}/${name}`;
}

export function below(folder: string, path: string): string {
  return folder === '.' ? path : path.slice(folder.length + 1);
}

export function isBelow(folder: string, path: string): boolean {
  return path !== '.' && (folder === '.' || path.startsWith(`${folder}/`));
}
