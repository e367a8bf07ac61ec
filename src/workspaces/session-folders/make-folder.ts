import { chmodSync, lstatSync, mkdirSync, symlinkSync, utimesSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { AmbitError, isAmbitError } from '../../errors.ts';
import { openRoot, type SafeRoot } from '../saferoot/open-root.ts';
import { SafeRootError } from '../saferoot/saferoot-error.ts';
import { withOpen } from '../with-open.ts';
import { createContentCache } from './content-cache.ts';
import { type FolderName, type FolderPaths, type FolderRecord, writeFolderRecord } from './folder-record.ts';
import { GitError, type RunGit } from './git/git.ts';
import { findRepository } from './git/repository.ts';
import { hasUncommitted, shadowPaths } from './git/shadow-repository.ts';
import { branchNames, createWorktree, readCommit } from './git/worktree.ts';
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
