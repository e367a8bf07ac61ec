import { readdirSync, readFileSync } from 'node:fs';

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
