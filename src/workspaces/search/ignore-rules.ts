import type { SessionFiles } from '../session-files.ts';
import type { Budget } from './bounds.ts';
import {
  enterLevel,
  excludeFile,
  fileName,
  foldersAbove,
  type IgnoreLevel,
  isBelow,
  isIgnored,
  repositoryName,
} from './ignore-levels.ts';

/** Says of a path what a walk would have found out on its way there. */
export interface Judge {
  /** What a folder and those above it say together. */
  levelOf(folder: string): Promise<IgnoreLevel>;
  /** Whether a walk would have passed a path over. */
  isLeftOut(path: string, isFolder: boolean): Promise<boolean>;
}

/** A judge for a search that begins at a folder: that one itself is never left out. */
export function createJudge(files: SessionFiles, start: string, budget: Budget): Judge {
  const levels = new Map<string, Promise<IgnoreLevel>>();
  const levelOf = (folder: string): Promise<IgnoreLevel> => {
    const above = foldersAbove(folder).at(-1);
    const known = levels.get(folder);
    if (known !== undefined) return known;
    const level = (async () =>
      enterLevel(files, folder, above === undefined ? undefined : await levelOf(above), { budget }))();
    levels.set(folder, level);
    return level;
  };
  return {
    levelOf,
    async isLeftOut(path, isFolder) {
      for (const each of [...foldersAbove(path), path].filter((one) => isBelow(start, one))) {
        if (each.split('/').at(-1) === repositoryName) return true;
        const level = await levelOf(foldersAbove(each).at(-1) as string);
        if (isIgnored(level, each, isFolder || each !== path)) return true;
      }
      return false;
    },
  };
}

interface Asked {
  readonly judge: Judge;
  readonly start: string;
  readonly budget: Budget;
}

/** More would take longer to match than they save. */
const mostLines = 10_000;

/**
 * What the ignore files at these paths, and those above the start, say together: lines of one file in the workspace
 * itself. Undefined where that cannot be said: then nothing is left out. Names that are no ignore files say nothing.
 */
export async function rulesFrom(
  ignoreFiles: readonly string[],
  { judge, start, budget }: Asked,
): Promise<readonly string[] | undefined> {
  const folders = new Set([...foldersAbove(start), start]);
  for (const folder of ignoreFiles.flatMap(folderOf).sort(byDepth)) {
    if (budget.count() && !(await budget.goesOn())) return undefined;
    if (isBelow(start, folder) && !(await judge.isLeftOut(folder, true))) folders.add(folder);
  }
  const levels: IgnoreLevel[] = [];
  for (const folder of folders) levels.push(await judge.levelOf(folder));
  // The last line that fits decides: so those that decide come last.
  const lines: string[] = [];
  for (const which of ['exclude', 'own'] as const) {
    for (const level of new Set(levels)) {
      const seen = level[which]?.seenFromTop(level.folder) ?? (level[which] === undefined ? [] : undefined);
      if (seen === undefined || lines.length + seen.length > mostLines) return undefined;
      lines.push(...seen);
    }
  }
  return lines;
}

/** The folder that an ignore file is about. */
function folderOf(path: string): string[] {
  for (const name of [fileName, excludeFile]) {
    if (path === name) return ['.'];
    if (path.endsWith(`/${name}`)) return [path.slice(0, -name.length - 1)];
  }
  return [];
}

const byDepth = (one: string, other: string): number => one.split('/').length - other.split('/').length;
