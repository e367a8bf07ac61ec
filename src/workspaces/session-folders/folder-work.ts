import type { Log } from '../../observability/log/log.ts';
import { openRoot } from '../saferoot/open-root.ts';
import { changesOf, missingFrom } from './changes.ts';
import { diffOf, type ShownDiff } from './folder-diff.ts';
import type { FolderPlace, FolderRecord } from './folder-record.ts';
import type { RunGit } from './git/git.ts';
import { type FolderSubject, makeFolder, type Workshop } from './make-folder.ts';
import { withBefore } from './original-content.ts';
import { removeSessionFolder } from './remove-folder.ts';
import { readBase } from './snapshot.ts';

// Everything that works on the files of a session's folder stands behind this file, which is loaded on its first use.
export { createPathGuard } from '../path-guard.ts';
export { pathRules } from '../path-rules.ts';
export { sweepKept } from './content-cache.ts';
export { mergeFolder } from './merge-folder.ts';
export { removeSessionFolder };

/** Makes the folder of a session and logs it. A folder that cannot be made is removed again. */
export async function makeLoggedFolder(
  { log, ...workshop }: Workshop & { readonly log: Log },
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
    await removeSessionFolder(workshop.git, workshop.place);
    throw error;
  }
}

/** The number of changed paths that the workspace does not hold yet. */
export async function countUnmerged(git: RunGit, place: FolderPlace, record: FolderRecord): Promise<number> {
  const session = openRoot(record.path);
  try {
    const changes = await changesOf(git, session, readBase(place.base), place, record);
    const workspace = openRoot(record.workspacePath);
    return (await missingFrom(workspace, changes).finally(() => workspace.close())).length;
  } finally {
    session.close();
  }
}

export async function diffFolder(
  git: RunGit,
  common: string,
  place: FolderPlace,
  record: FolderRecord,
): Promise<ShownDiff> {
  const root = openRoot(record.path);
  try {
    const changes = await changesOf(git, root, readBase(place.base), place, record);
    return await withBefore(git, common, place, record, changes, (read) => diffOf(root, changes, read));
  } finally {
    root.close();
  }
}
