import type { Handle } from './platform/platform-fs.ts';

/**
 * Folders in which this process has given something a name, the latest last: who looked before looks again. What other
 * processes do is found by a look after the deed.
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

/** Whether any of these folders got a new name in it since; also where that is too long ago to say. */
export function hasChangedSince(folders: ReadonlySet<string>, since: number): boolean {
  const count = changeCount - since;
  return (
    count > recentFolders.length || (count > 0 && recentFolders.slice(-count).some((folder) => folders.has(folder)))
  );
}
