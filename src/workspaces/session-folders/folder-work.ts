import { createHash, randomBytes } from 'node:crypto';
import { createReadStream, realpathSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { basename, dirname, join, posix } from 'node:path';
import { AmbitError } from '../../errors.ts';
import { withLongLock } from '../../lib/fs/file-lock.ts';
import { removeFolder } from '../../lib/fs/remove-folder.ts';
import type { Log } from '../../observability/log/log.ts';
import { guardProtectedTargets } from '../backends/local/guard-protected-targets.ts';
import type { PathGuard } from '../path-guard.ts';
import type { CheckAccess } from '../saferoot/check-access.ts';
import { openRoot, type SafeRoot } from '../saferoot/open-root.ts';
import { withOpen } from '../saferoot/read.ts';
import { SafeRootError } from '../saferoot/saferoot-error.ts';
import { findChanges, findUnmerged, hashChanges } from './changes.ts';
import { diffChanges, type RenderedDiff } from './folder-diff.ts';
import { type FolderName, type FolderPaths, type FolderRecord, readFolderRecord } from './folder-record.ts';
import type { RunGit } from './git/git.ts';
import { type FolderParts, type FolderSubject, makeFolder, removeWorktree } from './make-folder.ts';
import { createContentCache, withOriginals } from './original-files.ts';
import { type MergeOutcome, type MergeRules, type PlannedChange, planMerge } from './plan-merge.ts';
import { type PathContent, readBase, writeBase } from './snapshot.ts';
import { ignoreGone, maxTreeEntries } from './walk-tree.ts';

// Everything that works on the files of a session's folder stands behind this file, which is loaded on its first use.
export { createPathGuard, createPathRules as pathRules } from '../path-guard.ts';
export { sweepContentCache } from './original-files.ts';

/** Makes the folder of a session, records and logs it. A folder that cannot be made or recorded is removed again. */
export async function makeLoggedFolder(
  { log, record, ...parts }: FolderParts & { readonly log: Log; readonly record: (made: FolderRecord) => void },
  subject: FolderSubject,
): Promise<FolderRecord> {
  const started = performance.now();
  try {
    const made = await makeFolder(parts, subject);
    record(made);
    const fields = { session: subject.sessionId, workspace: subject.workspaceId, isolation: subject.kind };
    log.info('session folder created', { ...fields, ms: Math.round(performance.now() - started) });
    if (made.uncommitted) log.warn('uncommitted changes are left out', fields);
    return made;
  } catch (error) {
    await removeSessionFolder(parts.git, parts.paths);
    throw error;
  }
}

/** The number of changed paths that the workspace does not hold yet. Names that are not UTF-8 count: they cannot be merged. */
export async function countUnmerged(git: RunGit, paths: FolderPaths, record: FolderRecord): Promise<number> {
  return withOpen(openRoot(record.path), async (session) => {
    let unnamed = 0;
    const changes = await findChanges(git, session, readBase(paths.base), paths, record, () => {
      unnamed++;
    });
    const unmerged = await withOpen(openRoot(record.workspacePath), (workspace) => findUnmerged(workspace, changes));
    return unmerged.length + unnamed;
  });
}

export async function diffFolder(
  git: RunGit,
  common: string,
  paths: FolderPaths,
  record: FolderRecord,
  only?: string,
): Promise<RenderedDiff & { readonly changesHash: string; readonly unnamed: number }> {
  return withOpen(openRoot(record.path), async (root) => {
    let unnamed = 0;
    const found = await findChanges(git, root, readBase(paths.base), paths, record, () => {
      unnamed++;
    });
    const changes = found.filter(({ path }) => only === undefined || path === only || path.startsWith(`${only}/`));
    const { meanwhile, ...diff } = await withOriginals(git, common, paths, record, changes, (read) =>
      diffChanges(root, changes, read),
    );
    return { ...diff, unnamed, changesHash: hashChanges(found, meanwhile) };
  });
}

/** Removes a session's folder and all that belongs to it, finished or not. The record is removed last. */
export async function removeSessionFolder(git: RunGit, paths: FolderPaths): Promise<boolean> {
  const record = readFolderRecord(paths);
  // The folder is also removed when its repository is gone or not writable.
  if (record?.origin) await removeWorktree(git, record.origin, record.tree).catch(() => {});
  await removeByHandle(paths.tree);
  return removeFolder(paths.home);
}

/** Removes by handles: a process may still replace folders with links, and none of them is followed. */
async function removeByHandle(path: string): Promise<void> {
  try {
    const options = { maxEntries: 4 * maxTreeEntries };
    await withOpen(openRoot(dirname(path)), (root) => root.removeTree(basename(path), options));
  } catch {
    // Missing or write-protected: the next step can deal with that.
  }
}

type UndoStep = () => Promise<unknown>;

/** The merge failed at a path because something changed meanwhile. All of it was undone. */
class MergeInterruptedError extends Error {
  readonly path: string;

  constructor(path: string, cause: unknown) {
    super(`${path}: ${cause instanceof SafeRootError ? cause.message : String(cause)}`, { cause });
    this.name = 'MergeInterrupted';
    this.path = path;
  }
}

interface MergedFile {
  readonly path: string;
  readonly change: 'added' | 'modified' | 'deleted';
  /**
   * `taken`: as in the session. `merged`: combined with changes of the workspace. `already`: the workspace has it.
   * `left`: the workspace's version was preferred. `refused`: sessions may not write it. `conflict`: both changed the
   * same.
   */
  readonly outcome: MergeOutcome;
  readonly reason?: string;
}

export interface MergeResult extends FolderName {
  readonly dryRun: boolean;
  /** False where anything conflicts: then nothing was changed. */
  readonly fits: boolean;
  readonly changesHash: string;
  readonly files: readonly MergedFile[];
}

export interface MergeOptions extends Omit<MergeRules, 'closed'> {
  /** Paths that sessions may not write are not merged. */
  readonly guard: PathGuard;
  readonly dryRun?: boolean | undefined;
  /** The changes that were seen. Others are refused. */
  readonly changesHash?: string | undefined;
}

const lockTimeoutMs = 600_000;

/** Merges the changes of a session into the workspace: all of them or, where anything conflicts, none. */
export async function mergeFolder(
  { git, folders, common, paths, record }: MergeParts,
  options: MergeOptions,
): Promise<MergeResult> {
  const { workspacePath, path, sessionId, workspaceId } = record;
  const lock = join(folders, `.merge-${createHash('sha256').update(workspacePath).digest('hex').slice(0, 16)}`);
  const guard = guardProtectedTargets(() => realpathSync.native(workspacePath), options.guard, { firstAtOnce: true });
  const closed = (name: string) => guard.refusal('write', name.split('/'));
  // Called again for the targets of links in the workspace.
  const checkAccess: CheckAccess = (access, names) => (access === 'write' ? guard.refusal('write', names) : undefined);
  const staging = join(paths.home, `merge-${randomBytes(6).toString('hex')}`);
  // Locked, since two merges at once would each plan on the state before the other.
  return withLongLock(lock, lockTimeoutMs, async () => {
    const session = openRoot(path);
    let workspace: SafeRoot | undefined;
    try {
      workspace = openRoot(workspacePath, { checkAccess });
      await mkdir(staging, { mode: 0o700 });
      const base = readBase(paths.base);
      const changes = await findChanges(git, session, base, paths, record);
      const merged = { session, workspace, staging };
      const plan = await withOriginals(git, common, paths, record, changes, (read) =>
        planMerge(merged, changes, read, { closed, prefer: options.prefer }),
      );
      // Of the copies that are merged: what the session writes from now on is not in them.
      const changesHash = hashChanges(plan.map((each) => ({ ...each, after: each.session })));
      if (options.changesHash !== undefined && options.changesHash !== changesHash) throw staleError();
      const fits = plan.every(({ outcome }) => outcome !== 'conflict');
      const dryRun = options.dryRun === true;
      if (fits && !dryRun) {
        await applyMerge(workspace, plan, join(staging, 'undo'));
        await advanceBase(base, plan, paths, common);
      }
      return { sessionId, workspaceId, dryRun, fits, changesHash, files: plan.map(describeFile) };
    } catch (error) {
      throw error instanceof MergeInterruptedError ? conflictError(error) : error;
    } finally {
      session.close();
      workspace?.close();
      await removeFolder(staging);
    }
  });
}

function staleError(): AmbitError {
  return new AmbitError('FILE_CHANGED', {
    what: 'The session has changed files since these changes were shown, so nothing was merged.',
    hint: 'Look at the changes again, then merge what you see.',
  });
}

/** The error of an interrupted merge. After a refusal by a rule, trying again would not help. */
function conflictError(error: MergeInterruptedError): AmbitError {
  const isRefused = error.cause instanceof SafeRootError && error.cause.code === 'NOT_ADMITTED';
  return new AmbitError('WORKSPACE_CONFLICT', {
    what: `${isRefused ? 'The merge is refused.' : 'The workspace changed during the merge.'} ${error.message}`,
    hint: isRefused
      ? "Nothing was changed. Remove or rename it in the session's folder, then merge again."
      : 'Nothing was changed. Merge again.',
    cause: error,
  });
}

interface MergeParts extends FolderParts {
  readonly folders: string;
  readonly record: FolderRecord;
}

function describeFile({ path, before, session, outcome, reason }: PlannedChange): MergedFile {
  const change = before === undefined ? 'added' : session === undefined ? 'deleted' : 'modified';
  return { path, change, outcome, ...(reason === undefined ? {} : { reason }) };
}

/** Makes the merged state the new base: the next merge brings only later changes. */
async function advanceBase(
  base: Map<string, PathContent>,
  plan: readonly PlannedChange[],
  paths: FolderPaths,
  common: string,
): Promise<void> {
  const kept = createContentCache(common, paths.kept);
  for (const { path, outcome, session, staged } of plan) {
    if (outcome === 'refused') continue;
    if (session === undefined) base.delete(path);
    else {
      if (session.kind === 'file' && staged !== undefined) await kept.add(session.sha256, staged);
      base.set(path, session);
    }
  }
  writeBase(paths.base, base);
}

/**
 * Applies a plan to the workspace: all of it or, where a file is no longer as planned, nothing. Replaced files are
 * copied to `undo` before.
 */
export async function applyMerge(workspace: SafeRoot, plan: readonly PlannedChange[], undo: string): Promise<void> {
  await mkdir(undo, { mode: 0o700 });
  const steps = plan.filter(({ outcome }) => outcome === 'taken' || outcome === 'merged');
  // Deletions come first, since they make room for additions.
  const ordered = [
    ...steps.filter(({ next }) => next === undefined),
    ...steps.filter(({ next }) => next !== undefined),
  ];
  const done: UndoStep[] = [];
  for (const [index, step] of ordered.entries()) {
    try {
      await applyStep(workspace, step, join(undo, String(index)), done);
    } catch (error) {
      for (const back of done.reverse()) await back().catch(() => {});
      throw new MergeInterruptedError(step.path, error);
    }
  }
}

async function applyStep(workspace: SafeRoot, step: PlannedChange, copy: string, done: UndoStep[]): Promise<void> {
  const { path, found, next, source } = step;
  if (found?.kind === 'file' && next?.kind === 'file') {
    const old = await backUp(workspace, path, found, copy);
    const changeMode = next.executable === found.executable ? old.mode : withExecutable(old.mode, next.executable);
    await workspace.replace(path, createReadStream(source as string), { version: found.version as string, changeMode });
    done.push(() => workspace.replace(path, createReadStream(copy), { changeMode: old.mode }));
    return;
  }
  if (found !== undefined) await removeEntry(workspace, path, found, copy, done);
  if (next === undefined) return;
  if (next.kind === 'link') await workspace.symlink(path, next.target, { parents: true });
  else {
    const mode = next.executable ? 0o777 : 0o666;
    await workspace.create(path, createReadStream(source as string), { parents: true, mode });
  }
  done.push(async () => {
    await workspace.remove(path);
    await removeEmptyParents(workspace, path);
  });
}

async function removeEntry(
  workspace: SafeRoot,
  path: string,
  found: PathContent,
  copy: string,
  done: UndoStep[],
): Promise<void> {
  if (found.kind === 'file') {
    const { mode } = await backUp(workspace, path, found, copy);
    await workspace.remove(path);
    done.push(() => workspace.create(path, createReadStream(copy), { parents: true, mode }));
  } else {
    const target = await workspace.readlink(path, { absolute: true });
    if (target !== found.target) throw new SafeRootError('CHANGED', { path });
    await workspace.remove(path);
    done.push(() => workspace.symlink(path, target, { parents: true }));
  }
  await removeEmptyParents(workspace, path);
}

/** Copies the present file, which must be the one the merge was planned with. */
async function backUp(
  workspace: SafeRoot,
  path: string,
  found: Extract<PathContent, { kind: 'file' }>,
  copy: string,
): Promise<{ readonly mode: number }> {
  return withOpen(workspace.open(path), async ({ facts, copyTo }) => {
    if (facts.version !== found.version) throw new SafeRootError('CHANGED', { path });
    await copyTo(copy);
    return { mode: facts.mode };
  });
}

/** Removes parent folders that are empty now, as git does. */
async function removeEmptyParents(workspace: SafeRoot, path: string): Promise<void> {
  for (let folder = posix.dirname(path); folder !== '.'; folder = posix.dirname(folder)) {
    const facts = await ignoreGone(workspace.stat(folder, { link: true }));
    if (facts?.kind !== 'folder') return;
    try {
      await workspace.remove(folder);
    } catch {
      return;
    }
  }
}

/** Sets or clears the executable bit for all who may read the file. */
function withExecutable(mode: number, executable: boolean): number {
  return executable ? mode | ((mode & 0o444) >> 2) : mode & ~0o111;
}
