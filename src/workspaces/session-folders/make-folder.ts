import { chmodSync, lstatSync, mkdirSync, symlinkSync, utimesSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { AmbitError, isAmbitError } from '../../errors.ts';
import { openRoot, type SafeRoot } from '../saferoot/open-root.ts';
import { SafeRootError } from '../saferoot/saferoot-error.ts';
import { keptContent } from './content-cache.ts';
import { type FolderKind, type FolderPlace, type FolderRecord, writeRecord } from './folder-record.ts';
import { GitError, type RunGit } from './git/git.ts';
import { findRepository, type Repository } from './git/repository.ts';
import { hasUncommitted, throughShadow } from './git/shadow-repository.ts';
import { branchesFor, commitOf, makeWorktree } from './git/worktree.ts';
import { type Content, contentAt, writeBase } from './snapshot.ts';
import { unlessGone, walkTree } from './walk-tree.ts';

const mostCopiedBytes = 32 * 1024 ** 3;

interface Copied {
  readonly entries: number;
  /** Devices, pipes, and names that no path can say. */
  readonly leftOut: number;
}

export interface FolderSubject {
  readonly sessionId: string;
  readonly sessionName: string | undefined;
  readonly workspaceId: string;
  readonly workspacePath: string;
  readonly kind: FolderKind;
}

/** The system's clock for files does not tick more slowly than this. */
const tickMs = 20;

/** Where a folder is made, and what makes it. */
export interface Workshop {
  readonly git: RunGit;
  /** Content that folders share. */
  readonly common: string;
  readonly place: FolderPlace;
}

/** Makes the folder of a session. It counts as made once its record says so; until then it is nobody's. */
export async function makeFolder(workshop: Workshop, subject: FolderSubject): Promise<FolderRecord> {
  const { place, common } = workshop;
  try {
    await mkdir(place.home, { recursive: true, mode: 0o700 });
    const draft = subject.kind === 'worktree' ? await worktree(workshop, subject) : await copy(place, subject);
    await noteStart(place, common, draft);
    // A file that the session changes from now on bears a time later than any of those noted.
    await delay(tickMs);
    const record: FolderRecord = { ...draft, state: 'ready' };
    writeRecord(place, record);
    return record;
  } catch (error) {
    throw asRefusal(error, subject);
  }
}

async function worktree({ git, place }: Workshop, subject: FolderSubject): Promise<FolderRecord> {
  const { workspacePath, sessionId, sessionName } = subject;
  const repository = findRepository(workspacePath);
  if ('refused' in repository) throw noRepository(subject, repository.refused);
  const commit = await commitOf(git, repository);
  if (commit === undefined) throw noRepository(subject, 'its repository has no commit yet, or none that lies in it');
  const path = join(place.tree, repository.prefix);
  const { commonDir } = repository;
  const draft = { ...draftOf(place, subject, path), origin: { commonDir, commit, branch: '', adminDir: null } };
  writeRecord(place, draft);
  const origin = await makeWorktree(git, place, repository, commit, branchesFor(sessionId, sessionName));
  if (lstatSync(path, { throwIfNoEntry: false })?.isDirectory() !== true) {
    throw noRepository(subject, 'it is no part of the last commit');
  }
  const record = { ...draft, origin, uncommitted: await differs(git, place, repository) };
  writeRecord(place, record);
  return record;
}

async function differs(git: RunGit, place: FolderPlace, repository: Repository): Promise<boolean> {
  const shadow = throughShadow(place.shadow, repository.commonDir, place.tree);
  return (await hasUncommitted(git, shadow, repository)) ?? false;
}

async function copy(place: FolderPlace, subject: FolderSubject): Promise<FolderRecord> {
  const draft = draftOf(place, subject, place.tree);
  writeRecord(place, draft);
  await mkdir(place.tree, { mode: 0o700 });
  const root = openRoot(subject.workspacePath);
  try {
    await copyTree(root, place.tree);
  } finally {
    root.close();
  }
  return draft;
}

function draftOf(place: FolderPlace, subject: FolderSubject, path: string): FolderRecord {
  return {
    state: 'making',
    kind: subject.kind,
    sessionId: subject.sessionId,
    sessionName: subject.sessionName ?? null,
    workspaceId: subject.workspaceId,
    workspacePath: subject.workspacePath,
    tree: place.tree,
    path,
    madeAt: new Date().toISOString(),
    origin: null,
    uncommitted: false,
    kept: false,
  };
}

/** What a repository has needs not be kept a second time. */
async function noteStart(place: FolderPlace, common: string, { path: folder, kind }: FolderRecord): Promise<void> {
  const kept = keptContent(common, place.kept);
  const root: SafeRoot = openRoot(folder);
  const base = new Map<string, Content>();
  try {
    for await (const { path, kind: what } of walkTree(root, { skip: (each) => each === '.git' })) {
      const content = what === 'folder' ? undefined : await contentAt(root, path);
      if (content === undefined) continue;
      base.set(path, content);
      if (kind === 'copy' && content.kind === 'file') await kept.keep(content.sha256, join(folder, path));
    }
  } finally {
    root.close();
  }
  writeBase(place.base, base);
}

function noRepository({ workspaceId }: FolderSubject, why: string): AmbitError {
  return new AmbitError('WORKSPACE_UNAVAILABLE', {
    what: `The workspace "${workspaceId}" cannot give a session a worktree: ${why}.`,
    hint: `The operator can make it a repository with a commit, or set workspaces.${workspaceId}.isolation to "copy" or "shared".`,
    rule: `workspaces.${workspaceId}.isolation`,
  });
}

function asRefusal(error: unknown, subject: FolderSubject): unknown {
  if (isAmbitError(error)) return error;
  if (error instanceof GitError && error.missing) return noRepository(subject, 'git is not installed');
  if (error instanceof GitError && /Permission denied|insufficient permission/.test(error.message)) {
    return noRepository(subject, "Ambit's account may not write its repository");
  }
  const known = error instanceof GitError || error instanceof SafeRootError;
  const why = error instanceof SafeRootError ? error.message : 'git refused';
  return new AmbitError('WORKSPACE_UNAVAILABLE', {
    what: `No folder could be made for this session in the workspace "${subject.workspaceId}"${known ? `: ${why}` : ''}`,
    cause: error,
  });
}

/**
 * Copies all that a folder holds into an empty one that nobody else can reach yet. Links stay links, wherever they lead:
 * they are not followed.
 */
async function copyTree(from: SafeRoot, to: string, maxBytes = mostCopiedBytes): Promise<Copied> {
  let [entries, leftOut, bytes] = [0, 0, 0];
  const folders: { readonly path: string; readonly mode: number }[] = [];
  for await (const { path, kind, facts } of walkTree(from, { onLeftOut: () => leftOut++ })) {
    const target = join(to, path);
    entries++;
    if (kind === 'folder') {
      mkdirSync(target, { mode: 0o700 });
      folders.push({ path: target, mode: facts.mode });
    } else if (kind === 'link') {
      const said = await unlessGone(from.readlink(path, { absolute: true }));
      if (said !== undefined) symlinkSync(said, target);
    } else {
      bytes += facts.size;
      if (bytes > maxBytes) throw tooLarge(maxBytes);
      await copyOne(from, path, target);
    }
  }
  // Afterwards: one that may not be written could not have been filled.
  for (const { path, mode } of folders.reverse()) chmodSync(path, mode & 0o777);
  return { entries, leftOut };
}

async function copyOne(from: SafeRoot, path: string, target: string): Promise<void> {
  const file = await unlessGone(from.open(path));
  if (file === undefined) return;
  try {
    await file.copyTo(target);
    const { mode, modifiedMs } = file.facts;
    // Neither set-user-id nor its kin: the copy is ours, and would run as us.
    chmodSync(target, mode & 0o777);
    utimesSync(target, modifiedMs / 1000, modifiedMs / 1000);
  } finally {
    await file.close();
  }
}

function tooLarge(most: number): AmbitError {
  return new AmbitError('WORKSPACE_FULL', {
    what: `The workspace holds more than ${Math.floor(most / 1024 ** 2)} MiB, which is not copied for a session.`,
    hint: 'Let the workspace be a smaller folder, or use "isolation: worktree".',
  });
}
