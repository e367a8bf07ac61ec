import { basename, dirname } from 'node:path';
import { removeFolder } from '../../lib/fs/remove-folder.ts';
import { openRoot } from '../saferoot/open-root.ts';
import { type FolderPaths, readFolderRecord } from './folder-record.ts';
import type { RunGit } from './git/git.ts';
import { removeWorktree } from './git/worktree.ts';
import { defaultMaxEntries } from './walk-tree.ts';

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
    const root = openRoot(dirname(path));
    try {
      await root.removeTree(basename(path), { maxEntries: 4 * defaultMaxEntries });
    } finally {
      root.close();
    }
  } catch {
    // Missing or write-protected: the next step can deal with that.
  }
}
