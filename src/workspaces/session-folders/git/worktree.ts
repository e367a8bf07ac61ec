import { createReadStream, lstatSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { basename, dirname, join, resolve } from 'node:path';
import { removeFolder } from '../../../lib/fs/remove-folder.ts';
import { withOpen } from '../../with-open.ts';
import type { FolderPaths, WorktreeOrigin } from '../folder-record.ts';
import { GitError, type RunGit } from './git.ts';
import { type Repository, readPointer, readSmallFile } from './repository.ts';
import { checkOutCommit, createShadow, openRealFolder, shadowPaths } from './shadow-repository.ts';

/** Enough where nothing is checked out. A pipe in the repository makes git wait without end. */
const gitTimeoutMs = 60_000;

/** The commit of the checkout; undefined before the first one. */
export async function readCommit(git: RunGit, { gitDir, commonDir }: Repository): Promise<string | undefined> {
  const args = ['rev-parse', '--verify', '--quiet', '--end-of-options', 'HEAD^{commit}'];
  try {
    const said = (await git({ gitDir, commonDir }, args, { timeoutMs: gitTimeoutMs })).toString('latin1').trim();
    if (/^(?:[0-9a-f]{40}|[0-9a-f]{64})$/.test(said)) return said;
  } catch (error) {
    if (!(error instanceof GitError && error.code === 1)) throw error;
    return undefined;
  }
  throw new GitError('git rev-parse: this is no commit');
}

/**
 * Creates a worktree with a branch of its own. Git only registers it; the files are checked out through the shadow
 * repository, so that nothing the repository configures is run.
 */
export async function createWorktree(
  git: RunGit,
  paths: FolderPaths,
  repository: Repository,
  commit: string,
  branches: readonly string[],
): Promise<WorktreeOrigin> {
  const { commonDir } = repository;
  await createShadow(paths.shadow, commit);
  const branch = await addWorktree(git, repository, paths.tree, commit, branches);
  const adminDir = readAdminDir(paths.tree, commonDir);
  await checkOutCommit(git, shadowPaths(paths.shadow, commonDir, paths.tree), paths.tree, commit);
  await copyIndex(join(paths.shadow, 'index'), commonDir, adminDir);
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
      // Created first, so that the sandbox can mount it without its parent.
      await mkdir(tree);
      const args = ['worktree', 'add', '--quiet', '--no-checkout', '-b', branch, tree, commit];
      await git({ gitDir, commonDir }, args, { writes: [commonDir, tree], timeoutMs: gitTimeoutMs });
      return branch;
    } catch (error) {
      // Most likely the branch exists already.
      failure = error;
      await removeFolder(tree);
      if (!(error instanceof GitError) || error.code === undefined) break;
    }
  }
  throw failure;
}

/** Gives the worktree its index, so that git works for a person there. By handles, so that no link is followed. */
async function copyIndex(index: string, commonDir: string, adminDir: string): Promise<void> {
  const path = `worktrees/${basename(adminDir)}/index`;
  await withOpen(openRealFolder(commonDir), (root) => root.create(path, createReadStream(index), { mode: 0o666 }));
}

/** Reads the administrative folder once, before any session has access to the worktree. */
function readAdminDir(tree: string, commonDir: string): string {
  const target = /^gitdir: (.+?)\n?$/.exec(readSmallFile(join(tree, '.git')))?.[1] ?? '';
  const adminDir = resolve(tree, target);
  const isThere = dirname(adminDir) === join(commonDir, 'worktrees') && belongsTo(adminDir, tree);
  if (!isThere) throw new GitError('git put the worktree somewhere else');
  return adminDir;
}

/**
 * Removes a worktree from its repository, if it is still this one. Its branch is removed too if nothing was committed
 * on it.
 */
export async function removeWorktree(git: RunGit, origin: WorktreeOrigin, tree: string): Promise<void> {
  const { commonDir, commit } = origin;
  const adminDir = origin.adminDir ?? findAdminDir(commonDir, tree);
  const branch = origin.branch || (adminDir === undefined ? '' : readBranch(adminDir));
  if (adminDir !== undefined && belongsTo(adminDir, tree)) {
    // Sessions of a shared workspace may have put links there.
    await withOpen(openRealFolder(commonDir), async (root) => {
      await root.removeTree(`worktrees/${basename(adminDir)}`);
      // Git removes it after the last worktree too. It is not empty while there are others.
      await root.remove('worktrees').catch(() => {});
    });
  }
  if (branch === '') return;
  const args = ['update-ref', '--no-deref', '-d', `refs/heads/${branch}`, commit];
  await git({ gitDir: commonDir }, args, { writes: [commonDir], timeoutMs: gitTimeoutMs }).catch(() => {});
}

/** Finds the administrative folder when the process was killed before it could record it. */
function findAdminDir(commonDir: string, tree: string): string | undefined {
  const first = join(commonDir, 'worktrees', basename(tree));
  return [first, ...[...Array(9).keys()].map((count) => `${first}${count + 1}`)].find((dir) => belongsTo(dir, tree));
}

function readBranch(adminDir: string): string {
  const head = readSmallFile(join(adminDir, 'HEAD'));
  return /^ref: refs\/heads\/(ambit[/-][A-Za-z0-9._-]+)\n$/.exec(head)?.[1] ?? '';
}

function belongsTo(adminDir: string, tree: string): boolean {
  try {
    return lstatSync(adminDir).isDirectory() && readPointer(adminDir) === join(tree, '.git');
  } catch {
    return false;
  }
}

/** Names for the branch, made of the name of the session or its id. */
export function branchNames(sessionId: string, name: string | undefined): string[] {
  const short = sessionId.slice(0, 8);
  const safeName = (name ?? '')
    .replace(/[^A-Za-z0-9._-]+/g, '-')
    .replace(/\.{2,}/g, '.')
    .replace(/^[-.]+|(?:\.lock|[-.])+$/g, '')
    .slice(0, 60)
    .replace(/(?:\.lock|[-.])+$/g, '');
  const own = safeName === '' ? [] : [`ambit/${safeName}`, `ambit/${safeName}-${short}`];
  return [...own, `ambit/${short}`, `ambit/${sessionId}`, `ambit-${sessionId}`];
}
