import type { Handle } from './platform/platform-fs.ts';

/**
 * Folders in which this process has given something a name, the latest last: who looked before looks again. What other
 * processes do is found by a look after the deed.
 */
const recent: string[] = [];
const mostRecent = 4096;
let changes = 0;

export const folderKey = ({ stats }: Handle): string => `${stats.dev}:${stats.ino}`;

export function noteChange(folder: Handle): void {
  changes++;
  recent.push(folderKey(folder));
  if (recent.length > 2 * mostRecent) recent.splice(0, mostRecent);
}

export function changesSoFar(): number {
  return changes;
}

/** Whether any of these folders got a new name in it since; also where that is too long ago to say. */
export function changedIn(folders: ReadonlySet<string>, since: number): boolean {
  const count = changes - since;
  return count > recent.length || (count > 0 && recent.slice(-count).some((folder) => folders.has(folder)));
}
