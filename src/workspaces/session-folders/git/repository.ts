import {
  closeSync,
  constants,
  fstatSync,
  lstatSync,
  openSync,
  readFileSync,
  realpathSync,
  type Stats,
  statSync,
} from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';

/** The repository that a workspace lies in. */
export interface Repository {
  /** The git folder of this checkout. In a worktree, it is not the repository's own. */
  readonly gitDir: string;
  /** The git folder of the repository: objects, branches, worktrees. */
  readonly commonDir: string;
  /** The folder of the checkout; `prefix` is the relative path from there to the workspace. */
  readonly top: string;
  readonly prefix: string;
}

export type RepositoryLookup = Repository | { readonly refused: string };

/** The main parts of a repository. As links they could lead to another repository. */
const checkedNames = ['HEAD', 'config', 'packed-refs', 'refs', 'objects', 'objects/info', 'objects/pack', 'worktrees'];

/**
 * Finds the repository as git does, but without trusting files that a session may have written: a pointer to a
 * repository counts only where the repository points back.
 */
export function findRepository(workspace: string): RepositoryLookup {
  const real = realpathSync.native(workspace);
  for (let top = real; ; top = dirname(top)) {
    const dot = join(top, '.git');
    const stats = statLink(dot);
    if (stats !== undefined) {
      const found = stats.isDirectory() ? readOwnFolder(dot) : stats.isFile() ? followPointer(dot) : undefined;
      if (found === undefined)
        return { refused: 'its ".git" is a symbolic link or points to a repository that does not list it' };
      if (![stats, statSync(found.commonDir)].every((each) => isTrusted(each, real)))
        return { refused: 'its repository belongs to another user' };
      const crooked = findUnsafePart(found.commonDir);
      if (crooked !== undefined) return { refused: crooked };
      return { ...found, top, prefix: relative(top, real) };
    }
    if (top === dirname(top)) return { refused: 'it is not in a git repository' };
  }
}

function readOwnFolder(gitDir: string): Pick<Repository, 'gitDir' | 'commonDir'> | undefined {
  return statLink(join(gitDir, 'commondir')) === undefined ? { gitDir, commonDir: gitDir } : undefined;
}

/** Follows the `.git` file of a worktree to its folder in the repository, which must name this file. */
function followPointer(file: string): Pick<Repository, 'gitDir' | 'commonDir'> | undefined {
  try {
    const target = /^gitdir: (.+?)\n?$/.exec(readSmallFile(file))?.[1];
    if (target === undefined) return undefined;
    const gitDir = realpathSync.native(resolve(dirname(file), target));
    if (readPointer(gitDir) !== file) return undefined;
    const commonDir = realpathSync.native(resolve(gitDir, readSmallFile(join(gitDir, 'commondir')).trim()));
    return dirname(gitDir) === join(commonDir, 'worktrees') ? { gitDir, commonDir } : undefined;
  } catch {
    return undefined;
  }
}

/** Reads which `.git` file a worktree's folder in its repository belongs to. */
export function readPointer(adminDir: string): string {
  const folder = dirname(resolve(adminDir, readSmallFile(join(adminDir, 'gitdir')).trim()));
  return join(statLink(folder) === undefined ? folder : realpathSync.native(folder), '.git');
}

/** Reads a small file of a repository without following links or blocking: a pipe would block the whole gateway. */
export function readSmallFile(path: string): string {
  const descriptor = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOFOLLOW);
  try {
    const stats = fstatSync(descriptor);
    if (!stats.isFile() || stats.size > maxSmallFileBytes) throw new Error('not a small file');
    return readFileSync(descriptor, 'utf8');
  } finally {
    closeSync(descriptor);
  }
}

const maxSmallFileBytes = 65_536;

function isTrusted(stats: Stats, workspace: string): boolean {
  return [process.getuid?.(), 0, statSync(workspace).uid].includes(stats.uid);
}

function findUnsafePart(commonDir: string): string | undefined {
  for (const name of checkedNames) {
    const stats = statLink(join(commonDir, name));
    if (stats?.isSymbolicLink()) return `"${name}" of its repository is a symbolic link`;
    // Git would wait for a pipe without end.
    if (stats !== undefined && !stats.isFile() && !stats.isDirectory())
      return `"${name}" of its repository is not a file`;
  }
  const alternates = ['objects/info/alternates', 'objects/info/http-alternates'];
  const borrows = alternates.some((name) => statLink(join(commonDir, name)) !== undefined);
  return borrows ? borrowsObjects : undefined;
}

/** Refused because such a file gives access to any other repository. */
const borrowsObjects =
  'its repository uses objects of another repository, which is not available there; run "git repack -a -d" to copy them, then remove "objects/info/alternates"';

function statLink(path: string): Stats | undefined {
  return lstatSync(path, { throwIfNoEntry: false });
}
