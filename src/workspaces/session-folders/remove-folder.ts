import { basename, dirname } from 'node:path';
import { removeFolder } from '../../lib/fs/remove-folder.ts';
import { openRoot } from '../saferoot/open-root.ts';
import { type FolderPlace, readRecord } from './folder-record.ts';
import type { RunGit } from './git/git.ts';
import { forgetWorktree } from './git/worktree.ts';
import { mostEntries } from './walk-tree.ts';

/** Removes a session's folder and all that belongs to it, finished or not. The record goes last. */
export async function removeSessionFolder(git: RunGit, place: FolderPlace): Promise<boolean> {
  const record = readRecord(place);
  // A repository that is gone, or not ours to write, must not keep the folder alive.
  if (record?.origin) await forgetWorktree(git, record.origin, record.tree).catch(() => {});
  await removeHeld(place.tree);
  return removeFolder(place.home);
}

/** Somebody may still be exchanging folders for links in there: by handles, none of them is followed. */
async function removeHeld(path: string): Promise<void> {
  try {
    const root = openRoot(dirname(path));
    try {
      await root.removeTree(basename(path), { maxEntries: 4 * mostEntries });
    } finally {
      root.close();
    }
  } catch {
    // Not there, or write-protected by its own permissions: what comes next can deal with that.
  }
}
