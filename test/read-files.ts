import { type Dirent, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

/**
 * Reads all files below a folder that a gateway may still be using: temporary files and folders can go at any moment, and
 * are left out then. The texts are by the paths of the files, byte by byte.
 */
export function readFilesBelow(folder: string): ReadonlyMap<string, string> {
  const entries = ifThere<Dirent[]>(() => readdirSync(folder, { withFileTypes: true })) ?? [];
  return new Map(
    entries.flatMap((entry): (readonly [string, string])[] => {
      const path = join(folder, entry.name);
      if (entry.isDirectory()) return [...readFilesBelow(path)];
      const text = entry.isFile() ? ifThere(() => readFileSync(path, 'latin1')) : undefined;
      return text === undefined ? [] : [[path, text]];
    }),
  );
}

function ifThere<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
}
