import type { Handle } from './platform/platform-fs.ts';

/**
 * Folders in which this process has added a name, the latest last. A survey that began before must look again. Changes
 * by other processes are found by a check after the operation.
 */
const recentFolders: string[] = [];
const maxRecent = 4096;
let changeCount = 0;

export const folderKey = ({ stats }: Handle): string => `${stats.dev}:${stats.ino}`;

export function recordChange(folder: Handle): void {
  changeCount++;
  recentFolders.push(folderKey(folder));
  if (recentFolders.length > 2 * maxRecent) recentFolders.splice(0, maxRecent);
}

export function countChanges(): number {
  return changeCount;
}

/** Tells whether a name was added in one of these folders since then; also true where that is too long ago to know. */
export function hasChangedSince(folders: ReadonlySet<string>, since: number): boolean {
  const count = changeCount - since;
  return (
    count > recentFolders.length || (count > 0 && recentFolders.slice(-count).some((folder) => folders.has(folder)))
  );
}
