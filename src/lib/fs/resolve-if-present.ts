import { realpathSync } from 'node:fs';

/** Resolves the links of a path. A path that does not exist, or cannot be followed, stays as it is. */
export function resolveIfPresent(path: string): string {
  try {
    return realpathSync.native(path);
  } catch {
    return path;
  }
}
