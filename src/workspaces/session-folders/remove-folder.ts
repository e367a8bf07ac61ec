import { basename, dirname } from 'node:path';
import { removeFolder } from '../../lib/fs/remove-folder.ts';
import { openRoot } from '../saferoot/open-root.ts';
import { type FolderPaths, readFolderRecord } from './folder-record.ts';
import type { RunGit } from './git/git.ts';
import { removeWorktree } from './git/worktree.ts';
import { defaultMaxEntries } from './walk-tree.ts';

/** Removes a session's folder and all that belongs to it, finished or not. The record goes last. */
export async function removeSessionFolder(git: RunGit, paths: FolderPaths): Promise<boolean> {
  const record = readFolderRecord(paths);
  // A repository that is gone, or not ours to write, must not keep the folder alive.
  if (record?.origin) await removeWorktree(git, record.origin, record.tree).catch(() => {});
  await removeByHandle(paths.tree);
  return removeFolder(paths.home);
}

/** Somebody may still be exchanging folders for links in there: by handles, none of them is followed. */
async function removeByHandle(path: string): Promise<void> {
  try {
    const root = openRoot(dirname(path));
    try {
      await root.removeTree(basename(path), { maxEntries: 4 * defaultMaxEntries });
    } finally {
      root.close();
    }
  } catch {
    // Not there, or write-protected by its own permissions: what comes next can deal with that.
  }
}
