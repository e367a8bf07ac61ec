import type { Log } from '../../observability/log/log.ts';
import { openRoot } from '../saferoot/open-root.ts';
import { findChanges, findUnmerged } from './changes.ts';
import { diffChanges, type RenderedDiff } from './folder-diff.ts';
import type { FolderPaths, FolderRecord } from './folder-record.ts';
import type { RunGit } from './git/git.ts';
import { type FolderParts, type FolderSubject, makeFolder } from './make-folder.ts';
import { withOriginals } from './original-content.ts';
import { removeSessionFolder } from './remove-folder.ts';
import { readBase } from './snapshot.ts';

// Everything that works on the files of a session's folder stands behind this file, which is loaded on its first use.
export { createPathGuard } from '../path-guard.ts';
export { pathRules } from '../path-rules.ts';
export { sweepContentCache } from './content-cache.ts';
export { mergeFolder } from './merge-folder.ts';
export { removeSessionFolder };

/** Makes the folder of a session and logs it. A folder that cannot be made is removed again. */
export async function makeLoggedFolder(
  { log, ...workshop }: FolderParts & { readonly log: Log },
  subject: FolderSubject,
): Promise<FolderRecord> {
  const started = performance.now();
  try {
    const made = await makeFolder(workshop, subject);
    const fields = { session: subject.sessionId, workspace: subject.workspaceId, isolation: subject.kind };
    log.info('session folder made', { ...fields, ms: Math.round(performance.now() - started) });
    if (made.uncommitted) log.warn('uncommitted changes are left out', fields);
    return made;
  } catch (error) {
    await removeSessionFolder(workshop.git, workshop.paths);
    throw error;
  }
}

/** The number of changed paths that the workspace does not hold yet. */
export async function countUnmerged(git: RunGit, paths: FolderPaths, record: FolderRecord): Promise<number> {
  const session = openRoot(record.path);
  try {
    const changes = await findChanges(git, session, readBase(paths.base), paths, record);
    const workspace = openRoot(record.workspacePath);
    return (await findUnmerged(workspace, changes).finally(() => workspace.close())).length;
  } finally {
    session.close();
  }
}

export async function diffFolder(
  git: RunGit,
  common: string,
  paths: FolderPaths,
  record: FolderRecord,
): Promise<RenderedDiff> {
  const root = openRoot(record.path);
  try {
    const changes = await findChanges(git, root, readBase(paths.base), paths, record);
    return await withOriginals(git, common, paths, record, changes, (read) => diffChanges(root, changes, read));
  } finally {
    root.close();
  }
}
