import { createReadStream, lstatSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { basename, dirname, join, resolve } from 'node:path';
import { removeFolder } from '../../../lib/fs/remove-folder.ts';
import type { FolderPlace, WorktreeOrigin } from '../folder-record.ts';
import { GitError, type RunGit } from './git.ts';
import { pointerIn, type Repository, readNote } from './repository.ts';
import { checkOut, makeShadow, openUnmoved, throughShadow } from './shadow-repository.ts';

/** Enough where nothing is checked out. A pipe in the repository makes git wait for ever. */
const briefMs = 60_000;

/** The commit that the checkout stands on; undefined before the first one. */
export async function commitOf(git: RunGit, { gitDir, commonDir }: Repository): Promise<string | undefined> {
  const args = ['rev-parse', '--verify', '--quiet', '--end-of-options', 'HEAD^{commit}'];
  try {
    const said = (await git({ gitDir, commonDir }, args, { limitMs: briefMs })).toString('latin1').trim();
    if (/^(?:[0-9a-f]{40}|[0-9a-f]{64})$/.test(said)) return said;
  } catch (error) {
    if (!(error instanceof GitError && error.code === 1)) throw error;
    return undefined;
  }
  throw new GitError('git rev-parse: this is no commit');
}

/**
 * A worktree of the repository with a branch of its own. Git only notes it down; its files are checked out through a
 * git folder of ours, so that nothing the repository is configured to run is run.
 */
export async function makeWorktree(
  git: RunGit,
  place: FolderPlace,
  repository: Repository,
  commit: string,
  branches: readonly string[],
): Promise<WorktreeOrigin> {
  const { commonDir } = repository;
  await makeShadow(place.shadow, commit);
  const branch = await addWorktree(git, repository, place.tree, commit, branches);
  const adminDir = adminDirOf(place.tree, commonDir);
  await checkOut(git, throughShadow(place.shadow, commonDir, place.tree), place.tree, commit);
  await copyIndex(join(place.shadow, 'index'), commonDir, adminDir);
  return { commonDir, commit, branch, adminDir };
}

async function addWorktree(
  git: RunGit,
  { gitDir, commonDir }: Repository,
  tree: string,
  commit: string,
  branches: readonly string[],
): Promise<string> {
  let failure: unknown;
  for (const branch of branches) {
    try {
      // There already, so that it can be shown to git without the folder it lies in.
      await mkdir(tree);
      const args = ['worktree', 'add', '--quiet', '--no-checkout', '-b', branch, tree, commit];
      await git({ gitDir, commonDir }, args, { writes: [commonDir, tree], limitMs: briefMs });
      return branch;
    } catch (error) {
      // Most likely there is a branch of that name.
      failure = error;
      await removeFolder(tree);
      if (!(error instanceof GitError) || error.code === undefined) break;
    }
  }
  throw failure;
}

/** So that git, asked by a person there, finds all as it should be. By handles: no link is followed out of there. */
async function copyIndex(index: string, commonDir: string, adminDir: string): Promise<void> {
  const root = openUnmoved(commonDir);
  try {
    await root.create(`worktrees/${basename(adminDir)}/index`, createReadStream(index), { mode: 0o666 });
  } finally {
    root.close();
  }
}

/** Read once, before anybody else has seen the folder. */
function adminDirOf(tree: string, commonDir: string): string {
  const target = /^gitdir: (.+?)\n?$/.exec(readNote(join(tree, '.git')))?.[1] ?? '';
  const adminDir = resolve(tree, target);
  const isThere = dirname(adminDir) === join(commonDir, 'worktrees') && isFor(adminDir, tree);
  if (!isThere) throw new GitError('git put the worktree somewhere else');
  return adminDir;
}

/**
 * Takes a worktree out of its repository, as long as it is still this one. The branch goes too if nothing was committed
 * on it.
 */
export async function forgetWorktree(git: RunGit, origin: WorktreeOrigin, tree: string): Promise<void> {
  const { commonDir, commit } = origin;
  const adminDir = origin.adminDir ?? findAdminDir(commonDir, tree);
  const branch = origin.branch || (adminDir === undefined ? '' : branchIn(adminDir));
  if (adminDir !== undefined && isFor(adminDir, tree)) {
    // Sessions of a workspace that is shared may have put links there.
    const root = openUnmoved(commonDir);
    try {
      await root.removeTree(`worktrees/${basename(adminDir)}`);
      // As git does after the last one. It is not empty while there are others.
      await root.remove('worktrees').catch(() => {});
    } finally {
      root.close();
    }
  }
  if (branch === '') return;
  const args = ['update-ref', '--no-deref', '-d', `refs/heads/${branch}`, commit];
  await git({ gitDir: commonDir }, args, { writes: [commonDir], limitMs: briefMs }).catch(() => {});
}

/** Where a maker was killed before it could note it down. */
function findAdminDir(commonDir: string, tree: string): string | undefined {
  const first = join(commonDir, 'worktrees', basename(tree));
  return [first, ...[...Array(9).keys()].map((count) => `${first}${count + 1}`)].find((dir) => isFor(dir, tree));
}

function branchIn(adminDir: string): string {
  const head = readNote(join(adminDir, 'HEAD'));
  return /^ref: refs\/heads\/(ambit[/-][A-Za-z0-9._-]+)\n$/.exec(head)?.[1] ?? '';
}

function isFor(adminDir: string, tree: string): boolean {
  try {
    return lstatSync(adminDir).isDirectory() && pointerIn(adminDir) === join(tree, '.git');
  } catch {
    return false;
  }
}

/** A name a branch can have, made of the name of the session or its id. */
export function branchesFor(sessionId: string, name: string | undefined): string[] {
  const short = sessionId.slice(0, 8);
  const word = (name ?? '')
    .replace(/[^A-Za-z0-9._-]+/g, '-')
    .replace(/\.{2,}/g, '.')
    .replace(/^[-.]+|(?:\.lock|[-.])+$/g, '')
    .slice(0, 60)
    .replace(/(?:\.lock|[-.])+$/g, '');
  const own = word === '' ? [] : [`ambit/${word}`, `ambit/${word}-${short}`];
  return [...own, `ambit/${short}`, `ambit/${sessionId}`, `ambit-${sessionId}`];
}
