import { lstatSync, readlinkSync, realpathSync } from 'node:fs';
import { mkdir, rm, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { AmbitError } from '../../../errors.ts';
import { openRoot, type SafeRoot } from '../../saferoot/open-root.ts';
import { SafeRootError } from '../../saferoot/saferoot-error.ts';
import { GitError, type GitPlace, type RunGit } from './git.ts';
import type { Repository } from './repository.ts';

/**
 * A git folder of our own that borrows nothing from the repository but its objects: no configuration, no hooks, no
 * attributes. Files are checked out and looked at through it, so that no filter and no program of anybody's is run.
 */
export async function createShadow(folder: string, commit: string): Promise<void> {
  await mkdir(join(folder, 'refs'), { recursive: true, mode: 0o700 });
  await mkdir(join(folder, 'objects'), { recursive: true });
  const format =
    commit.length > 40 ? '[core]\n\trepositoryformatversion = 1\n[extensions]\n\tobjectformat = sha256\n' : '';
  await writeFile(join(folder, 'config'), `${format}[core]\n\tbare = false\n`);
  await writeFile(join(folder, 'HEAD'), `${commit}\n`);
}

export function shadowPaths(folder: string, commonDir: string, workTree: string): GitPlace {
  return { gitDir: folder, workTree, objects: join(commonDir, 'objects') };
}

/** All files of the commit, into an empty folder. */
export async function checkOutCommit(git: RunGit, shadow: GitPlace, tree: string, commit: string): Promise<void> {
  await git({ ...shadow, workTree: tree }, ['read-tree', '--reset', '-u', commit], { writes: [shadow.gitDir, tree] });
}

/** A pipe that somebody puts in place of a `.gitignore` while git looks makes git wait for ever. */
const gitTimeoutMs = 30_000;

/**
 * What git would not look at, of the files it does not know: folders end in "/". Where it cannot say, nothing may be
 * taken for wanted: then this is refused. Nothing of the repository is needed for it.
 */
export async function listIgnoredFiles(git: RunGit, shadow: GitPlace, timeoutMs = gitTimeoutMs): Promise<string[]> {
  const { objects: _, ...paths } = shadow;
  const args = ['ls-files', '--others', '--ignored', '--exclude-standard', '--directory', '-z'];
  try {
    return splitNames(await git(paths, args, { timeoutMs }));
  } catch (error) {
    if (!(error instanceof GitError)) throw error;
    throw new AmbitError('WORKSPACE_UNAVAILABLE', {
      what: "Git cannot say which files of the session's folder are ignored, so they cannot be told from its work.",
      hint: 'Try again when nothing in the session is at work. The operator can look into the folder and copy by hand.',
      cause: error,
    });
  }
}

/** Whether the files of the workspace differ from the commit that its checkout stands on; undefined where git cannot say. */
export async function hasUncommitted(
  git: RunGit,
  shadow: GitPlace,
  checkout: Repository,
): Promise<boolean | undefined> {
  // A copy of the checkout's index knows which files need no second look, and is ours to refresh.
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

/** The workspace, and what is said above it of the files in it. */
function visibleParts({ top, prefix }: Repository): string[] | undefined {
  if (prefix === '') return undefined;
  const names = prefix.split('/');
  const above = names.map((_, depth) => join(top, ...names.slice(0, depth)));
  const rules = above.flatMap((folder) => [join(folder, '.gitignore'), join(folder, '.gitattributes')]);
  return [join(top, prefix), ...rules.filter((path) => lstatSync(path, { throwIfNoEntry: false })?.isFile())];
}

/** By a handle: a pipe in its place is not waited for, and a link is not followed out of there. */
async function copyIndex(gitDir: string, target: string): Promise<void> {
  await rm(target, { force: true });
  const root = openRealFolder(gitDir);
  try {
    const file = await root.open('index');
    await file.copyTo(target).finally(() => file.close());
    // By its age git knows which files may have been written in the same moment as it, and looks into those.
    const writtenAt = Math.floor(file.facts.modifiedMs / 1000);
    await utimes(target, writtenAt, writtenAt);
  } finally {
    root.close();
  }
}

/** What files held at the start, as far as the repository still has it. */
export async function checkOutOriginals(
  git: RunGit,
  shadow: GitPlace,
  folder: string,
  paths: readonly string[],
): Promise<void> {
  // Into an empty folder: what the attributes of the commit say decides line ends, not what the session made of them.
  const input = paths.map((path) => `${path}\0`).join('');
  const args = ['checkout-index', '--force', '-z', '--stdin'];
  try {
    await git({ ...shadow, workTree: folder }, args, { input, writes: [folder] });
  } catch (error) {
    // A repository that is gone is no reason not to tell what changed.
    if (!(error instanceof GitError)) throw error;
  }
}

function splitNames(listed: Buffer): string[] {
  return listed
    .toString('utf8')
    .split('\0')
    .filter((name) => name !== '');
}

/** Opens a folder by its real path. Where a session has put a link on the way there meanwhile, it is refused. */
export function openRealFolder(path: string): SafeRoot {
  const root = openRoot(path);
  const { descriptor } = root;
  const found = descriptor === undefined ? realpathSync.native(path) : readlinkSync(`/proc/self/fd/${descriptor}`);
  if (found === path) return root;
  root.close();
  throw new SafeRootError('CHANGED', {});
}
