import { type Stats, statSync } from 'node:fs';

/** Which thing was found at a place. */
export function identityOf(found: Stats | undefined): string {
  return found === undefined ? '' : `${found.dev}:${found.ino}:${found.mode & 0o170000}`;
}

/** What a file or folder holds, as far as its own facts tell. */
export function contentOf(place: string): string {
  const stats = statAt(place);
  return stats === undefined
    ? ''
    : `${stats.dev}:${stats.ino}:${stats.mode}:${stats.size}:${stats.mtimeMs}:${stats.ctimeMs}`;
}

function statAt(place: string): Stats | undefined {
  try {
    return statSync(place, { throwIfNoEntry: false });
  } catch {
    return undefined;
  }
}
