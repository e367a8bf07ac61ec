import { chmodSync, createReadStream, lstatSync, mkdirSync, symlinkSync, utimesSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { basename, dirname, join, resolve } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { AmbitError, isAmbitError } from '../../errors.ts';
import { removeFolder } from '../../lib/fs/remove-folder.ts';
import { openRoot, type SafeRoot } from '../saferoot/open-root.ts';
import { withOpen } from '../saferoot/read.ts';
import { SafeRootError } from '../saferoot/saferoot-error.ts';
import {
  type FolderName,
  type FolderPaths,
  type FolderRecord,
  type WorktreeOrigin,
  writeFolderRecord,
} from './folder-record.ts';
import { GitError, type RunGit } from './git/git.ts';
import { findRepository, type Repository, readPointer, readSmallFile } from './git/repository.ts';
import {
  checkOutCommit,
  createContentCache,
  createShadow,
  hasUncommitted,
  openRealFolder,
  shadowPaths,
} from './original-files.ts';
import { type PathContent, readContent, writeBase } from './snapshot.ts';
import { ignoreGone, walkTree } from './walk-tree.ts';

const maxCopiedBytes = 32 * 1024 ** 3;

export interface FolderSubject extends FolderName, Pick<FolderRecord, 'workspacePath' | 'kind'> {
  readonly sessionName: string | undefined;
}

/** The resolution of file times is at least this good. */
const fileClockTickMs = 20;

export interface FolderParts {
  readonly git: RunGit;
  /** The content cache that folders share. */
  readonly common: string;
  readonly paths: FolderPaths;
}

/** Makes the folder of a session. It counts as made once its record says so. */
export async function makeFolder(parts: FolderParts, subject: FolderSubject): Promise<FolderRecord> {
  const { paths, common } = parts;
  try {
    await mkdir(paths.home, { recursive: true, mode: 0o700 });
    const draft =
      subject.kind === 'worktree' ? await createWorktreeFolder(parts, subject) : await createCopy(paths, subject);
    await recordBase(paths, common, draft);
    // A file that the session changes from now on has a later time than all recorded ones.
    await delay(fileClockTickMs);
    const record: FolderRecord = { ...draft, state: 'ready' };
    writeFolderRecord(paths, record);
    return record;
  } catch (error) {
    throw toRefusal(error, subject);
  }
}

async function createWorktreeFolder({ git, paths }: FolderParts, subject: FolderSubject): Promise<FolderRecord> {
  const { workspacePath, sessionId, sessionName } = subject;
  const repository = findRepository(workspacePath);
  if ('refused' in repository) throw noRepositoryError(subject, repository.refused);
  const commit = await readCommit(git, repository);
  if (commit === undefined) throw noRepositoryError(subject, 'its repository has no commit yet');
  const path = join(paths.tree, repository.prefix);
  const { commonDir } = repository;
  const draft = { ...createDraft(paths, subject, path), origin: { commonDir, commit, branch: '', adminDir: null } };
  writeFolderRecord(paths, draft);
  const origin = await createWorktree(git, paths, repository, commit, branchNames(sessionId, sessionName));
  if (lstatSync(path, { throwIfNoEntry: false })?.isDirectory() !== true) {
    throw noRepositoryError(subject, 'it is not part of the last commit');
  }
  const shadow = shadowPaths(paths.shadow, commonDir, paths.tree);
  const record = { ...draft, origin, uncommitted: (await hasUncommitted(git, shadow, repository)) ?? false };
  writeFolderRecord(paths, record);
  return record;
}

async function createCopy(paths: FolderPaths, subject: FolderSubject): Promise<FolderRecord> {
  const draft = createDraft(paths, subject, paths.tree);
  writeFolderRecord(paths, draft);
  await mkdir(paths.tree, { mode: 0o700 });
  await withOpen(openRoot(subject.workspacePath), (root) => copyTree(root, paths.tree));
  return draft;
}

function createDraft(paths: FolderPaths, subject: FolderSubject, path: string): FolderRecord {
  const { kind, sessionId, sessionName = null, workspaceId, workspacePath } = subject;
  return {
    state: 'making',
    kind,
    sessionId,
    sessionName,
    workspaceId,
    workspacePath,
    tree: paths.tree,
    path,
    madeAt: new Date().toISOString(),
    origin: null,
    uncommitted: false,
    kept: false,
  };
}

/** Records the base of a folder. Content of a repository is not stored a second time. */
async function recordBase(paths: FolderPaths, common: string, { path: folder, kind }: FolderRecord): Promise<void> {
  const kept = createContentCache(common, paths.kept);
  const base = new Map<string, PathContent>();
  await withOpen(openRoot(folder), async (root) => {
    for await (const { path, kind: what } of walkTree(root, (each) => each === '.git')) {
      const content = what === 'folder' ? undefined : await readContent(root, path);
      if (content === undefined) continue;
      base.set(path, content);
      if (kind === 'copy' && content.kind === 'file') await kept.add(content.sha256, join(folder, path));
    }
  });
  writeBase(paths.base, base);
}

function noRepositoryError({ workspaceId }: FolderSubject, why: string): AmbitError {
  return new AmbitError('WORKSPACE_UNAVAILABLE', {
    what: `The workspace "${workspaceId}" cannot create a worktree for the session: ${why}.`,
    hint: `The operator can create a repository with a commit, or set workspaces.${workspaceId}.isolation to "copy" or "shared".`,
    rule: `workspaces.${workspaceId}.isolation`,
  });
}

function toRefusal(error: unknown, subject: FolderSubject): unknown {
  if (isAmbitError(error)) return error;
  if (error instanceof GitError && error.missing) return noRepositoryError(subject, 'git is not installed');
  if (error instanceof GitError && /Permission denied|insufficient permission/.test(error.message)) {
    return noRepositoryError(subject, 'the account that runs Ambit cannot write to its repository');
  }
  const known = error instanceof GitError || error instanceof SafeRootError;
  const why = error instanceof SafeRootError ? error.message : 'git refused';
  return new AmbitError('WORKSPACE_UNAVAILABLE', {
    what: `The folder for this session in the workspace "${subject.workspaceId}" could not be created${known ? `: ${why}` : ''}`,
    cause: error,
  });
}

/** Copies a folder into an empty one that nobody else can reach yet. Links are copied, not followed. */
async function copyTree(from: SafeRoot, to: string): Promise<void> {
  let bytes = 0;
  const folders: { readonly path: string; readonly mode: number }[] = [];
  for await (const { path, kind, facts } of walkTree(from)) {
    const target = join(to, path);
    if (kind === 'folder') {
      mkdirSync(target, { mode: 0o700 });
      folders.push({ path: target, mode: facts.mode });
    } else if (kind === 'link') {
      const said = await ignoreGone(from.readlink(path, { absolute: true }));
      if (said !== undefined) symlinkSync(said, target);
    } else {
      bytes += facts.size;
      if (bytes > maxCopiedBytes) throw tooLargeError();
      await copyFileOf(from, path, target);
    }
  }
  // Set last, since a read-only folder could not have been filled.
  for (const { path, mode } of folders.reverse()) chmodSync(path, mode & 0o777);
}

async function copyFileOf(from: SafeRoot, path: string, target: string): Promise<void> {
  const found = await ignoreGone(from.open(path));
  if (found === undefined) return;
  await withOpen(found, async (file) => {
    await file.copyTo(target);
    const { mode, modifiedMs } = file.facts;
    // Without set-user-id and similar bits: the copy belongs to this account and would run as it.
    chmodSync(target, mode & 0o777);
    utimesSync(target, modifiedMs / 1000, modifiedMs / 1000);
  });
}

function tooLargeError(): AmbitError {
  return new AmbitError('WORKSPACE_FULL', {
    what: `The workspace contains more than ${maxCopiedBytes / 1024 ** 2} MiB, which is too large to copy for a session.`,
    hint: 'Use a smaller folder as the workspace, or "isolation: worktree".',
  });
}

/** Enough where nothing is checked out. A pipe in the repository makes git wait without end. */
const gitTimeoutMs = 60_000;

/** The commit of the checkout; undefined before the first one. */
async function readCommit(git: RunGit, { gitDir, commonDir }: Repository): Promise<string | undefined> {
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
async function createWorktree(
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
  const removeBranch = () => git({ gitDir: commonDir }, args, { writes: [commonDir], timeoutMs: gitTimeoutMs });
  // Nobody tries later. A busy machine or another git may refuse it for a moment; a branch with commits is always kept.
  await removeBranch()
    .catch(removeBranch)
    .catch(() => {});
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
function branchNames(sessionId: string, name: string | undefined): string[] {
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
