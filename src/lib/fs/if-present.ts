import { readdirSync, readFileSync, realpathSync } from 'node:fs';

/** Resolves the links of a path. A path that does not exist, or cannot be followed, stays as it is. */
export function resolveIfPresent(path: string): string {
  try {
    return realpathSync.native(path);
  } catch {
    return path;
  }
}

/** Empty for a file that is missing or cannot be read. */
export function readText(path: string): string {
  try {
    return readFileSync(path, 'latin1');
  } catch {
    return '';
  }
}

/** Empty for a folder that is missing or cannot be read. */
export function listNames(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}
