import { lstatSync, readlinkSync, realpathSync } from 'node:fs';
import { mkdir, rm, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { AmbitError } from '../../../errors.ts';
import { openRoot, type SafeRoot } from '../../saferoot/open-root.ts';
import { SafeRootError } from '../../saferoot/saferoot-error.ts';
import { withOpen } from '../../with-open.ts';
import { GitError, type GitPaths, type RunGit } from './git.ts';
import type { Repository } from './repository.ts';

/**
 * Creates a git folder that uses only the objects of the repository: no configuration, hooks or attributes. Files are
 * checked out and compared through it, so that no filter or program of the repository is run.
 */
export async function createShadow(folder: string, commit: string): Promise<void> {
  await mkdir(join(folder, 'refs'), { recursive: true, mode: 0o700 });
  await mkdir(join(folder, 'objects'), { recursive: true });
  const format =
    commit.length > 40 ? '[core]\n\trepositoryformatversion = 1\n[extensions]\n\tobjectformat = sha256\n' : '';
  await writeFile(join(folder, 'config'), `${format}[core]\n\tbare = false\n`);
  await writeFile(join(folder, 'HEAD'), `${commit}\n`);
}

export function shadowPaths(folder: string, commonDir: string, workTree: string): GitPaths {
  return { gitDir: folder, workTree, objects: join(commonDir, 'objects') };
}

/** Checks all files of a commit out into an empty folder. */
export async function checkOutCommit(git: RunGit, shadow: GitPaths, tree: string, commit: string): Promise<void> {
  await git({ ...shadow, workTree: tree }, ['read-tree', '--reset', '-u', commit], { writes: [shadow.gitDir, tree] });
}

/** A pipe that replaces a `.gitignore` while git runs makes git wait without end. */
const gitTimeoutMs = 30_000;

/**
 * Lists the untracked files that git ignores; folders end in "/". Refused where git fails, since ignored files must not
 * be taken for work. The objects of the repository are not needed.
 */
export async function listIgnoredFiles(git: RunGit, shadow: GitPaths, timeoutMs = gitTimeoutMs): Promise<string[]> {
  const { objects: _, ...paths } = shadow;
  const args = ['ls-files', '--others', '--ignored', '--exclude-standard', '--directory', '-z'];
  try {
    return splitNames(await git(paths, args, { timeoutMs }));
  } catch (error) {
    if (!(error instanceof GitError)) throw error;
    throw new AmbitError('WORKSPACE_UNAVAILABLE', {
      what: "Git cannot determine which files of the session's folder are ignored.",
      hint: 'Try again when nothing is running in the session. The operator can also copy files from the folder by hand.',
      cause: error,
    });
  }
}

/** Whether the files of the workspace differ from the commit of its checkout; undefined where git fails. */
export async function hasUncommitted(
  git: RunGit,
  shadow: GitPaths,
  checkout: Repository,
): Promise<boolean | undefined> {
  // A copy of the index tells which files are unchanged, and may be refreshed.
  const index = join(shadow.gitDir, 'index-of-checkout');
  try {
    await copyIndex(checkout.gitDir, index);
    const args = ['status', '--porcelain', '-z', '--untracked-files=normal', '--ignore-submodules=all'];
    const { top, prefix } = checkout;
    const which = prefix === '' ? [] : ['--', prefix];
    const paths = { ...shadow, workTree: top, index };
    return (
      (await git(paths, [...args, ...which], { parts: visibleParts(checkout), timeoutMs: gitTimeoutMs })).length > 0
    );
  } catch {
    return undefined;
  } finally {
    await rm(index, { force: true });
  }
}

/** The workspace, and the ignore and attribute files above it. */
function visibleParts({ top, prefix }: Repository): string[] | undefined {
  if (prefix === '') return undefined;
  const names = prefix.split('/');
  const above = names.map((_, depth) => join(top, ...names.slice(0, depth)));
  const rules = above.flatMap((folder) => [join(folder, '.gitignore'), join(folder, '.gitattributes')]);
  return [join(top, prefix), ...rules.filter((path) => lstatSync(path, { throwIfNoEntry: false })?.isFile())];
}

/** Copies the index by a handle: a pipe does not block, and a link is not followed. */
async function copyIndex(gitDir: string, target: string): Promise<void> {
  await rm(target, { force: true });
  await withOpen(openRealFolder(gitDir), async (root) => {
    const file = await root.open('index');
    await file.copyTo(target).finally(() => file.close());
    // Git compares the age of the index with those of files, and reads files that may have changed at the same moment.
    const writtenAt = Math.floor(file.facts.modifiedMs / 1000);
    await utimes(target, writtenAt, writtenAt);
  });
}

/** Checks out the original files, as far as the repository still has them. */
export async function checkOutOriginals(
  git: RunGit,
  shadow: GitPaths,
  folder: string,
  paths: readonly string[],
): Promise<void> {
  // In an empty folder, the attributes of the commit decide about line ends, not those of the session.
  const input = paths.map((path) => `${path}\0`).join('');
  const args = ['checkout-index', '--force', '-z', '--stdin'];
  try {
    await git({ ...shadow, workTree: folder }, args, { input, writes: [folder] });
  } catch (error) {
    // Changes are also shown when the repository is gone.
    if (!(error instanceof GitError)) throw error;
  }
}

function splitNames(listed: Buffer): string[] {
  return listed
    .toString('utf8')
    .split('\0')
    .filter((name) => name !== '');
}

/** Opens a folder by its real path. Refused when a session has replaced a part of the path with a link meanwhile. */
export function openRealFolder(path: string): SafeRoot {
  const root = openRoot(path);
  const { descriptor } = root;
  const found = descriptor === undefined ? realpathSync.native(path) : readlinkSync(`/proc/self/fd/${descriptor}`);
  if (found === path) return root;
  root.close();
  throw new SafeRootError('CHANGED', {});
}
