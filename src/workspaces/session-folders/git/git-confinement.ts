import { lstatSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { dirname, join } from 'node:path';
import type { Confinement } from '../../../sandbox/common/confinement.ts';
import type { Limits } from '../../../sandbox/limits/limits.ts';

/**
 * A git folder to work with, named outright: what a session wrote is never asked where the repository lies. Git sees the
 * folders that are named here and nothing else of the machine's files.
 */
export interface GitPlace {
  readonly gitDir: string;
  /** Of the repository, where the git folder is that of one of its worktrees. */
  readonly commonDir?: string;
  readonly workTree?: string;
  /** Where the objects lie, if not in the git folder. */
  readonly objects?: string;
  readonly index?: string;
}

/** What git sees beside the folders of its place, and what it may write. */
export interface GitSight {
  /** Folders that git may write, whether they are part of the place or not. */
  readonly writes?: readonly string[] | undefined;
  /** Given where git sees only these files and folders of the work tree. */
  readonly parts?: readonly string[] | undefined;
}

const limits: Limits = {
  memoryMb: 4096,
  pids: 256,
  cpus: availableParallelism(),
  fileMb: 65_536,
  openFiles: 4096,
  wallSeconds: 900,
};
/** By these a repository says what is to be run. Git has no reason to write them where Ambit runs it. */
const neverWritten = ['config', 'config.worktree', 'hooks', 'info'];

/** What git sees and may write. All have their own names inside: git notes down where worktrees and repositories lie. */
export function confinementFor(place: GitPlace, { writes = [], parts }: GitSight, tmpDir: string): Confinement {
  const { gitDir, commonDir, workTree, objects, index } = place;
  const named = [
    gitDir,
    commonDir,
    objects,
    index === undefined ? undefined : dirname(index),
    ...(parts ?? [workTree]),
  ];
  const seen = [...new Set(named.filter((path) => path !== undefined))];
  return {
    home: shown(tmpDir),
    readable: seen.filter((path) => !writes.includes(path)).map(shown),
    writable: writes.map(shown),
    frozen: writes.flatMap((path) => (path === gitDir || path === commonDir ? frozenIn(path) : [])).map(shown),
    hidden: [],
    limits,
  };
}

const shown = (path: string) => ({ real: path, inside: path });

function frozenIn(folder: string): string[] {
  return neverWritten
    .map((name) => join(folder, name))
    .filter((path) => {
      const stats = lstatSync(path, { throwIfNoEntry: false });
      return stats?.isFile() === true || stats?.isDirectory() === true;
    });
}
