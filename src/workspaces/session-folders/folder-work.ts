import { basename, dirname } from 'node:path';
import { removeFolder } from '../../lib/fs/remove-folder.ts';
import type { Log } from '../../observability/log/log.ts';
import { openRoot } from '../saferoot/open-root.ts';
import { withOpen } from '../with-open.ts';
import { findChanges, findUnmerged } from './changes.ts';
import { diffChanges, type RenderedDiff } from './folder-diff.ts';
import { type FolderPaths, type FolderRecord, readFolderRecord } from './folder-record.ts';
import type { RunGit } from './git/git.ts';
import { type FolderParts, type FolderSubject, makeFolder, removeWorktree } from './make-folder.ts';
import { withOriginals } from './original-content.ts';
import { readBase } from './snapshot.ts';
import { maxTreeEntries } from './walk-tree.ts';

// Everything that works on the files of a session's folder stands behind this file, which is loaded on its first use.
export { createPathGuard } from '../path-guard.ts';
export { createPathRules as pathRules } from '../path-rules.ts';
export { sweepContentCache } from './content-cache.ts';
export { mergeFolder } from './merge-folder.ts';

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

/** The number of changed paths that the workspace does not hold yet. */
export async function countUnmerged(git: RunGit, paths: FolderPaths, record: FolderRecord): Promise<number> {
  return withOpen(openRoot(record.path), async (session) => {
    const changes = await findChanges(git, session, readBase(paths.base), paths, record);
    const unmerged = await withOpen(openRoot(record.workspacePath), (workspace) => findUnmerged(workspace, changes));
    return unmerged.length;
  });
}

export async function diffFolder(
  git: RunGit,
  common: string,
  paths: FolderPaths,
  record: FolderRecord,
): Promise<RenderedDiff> {
  return withOpen(openRoot(record.path), async (root) => {
    const changes = await findChanges(git, root, readBase(paths.base), paths, record);
    return withOriginals(git, common, paths, record, changes, (read) => diffChanges(root, changes, read));
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
