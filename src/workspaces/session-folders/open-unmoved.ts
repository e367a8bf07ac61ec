import { readlinkSync, realpathSync } from 'node:fs';
import { openRoot, type SafeRoot } from '../saferoot/open-root.ts';
import { SafeRootError } from '../saferoot/saferoot-error.ts';

/** Opens a folder by its real path. Where a session has put a link on the way there meanwhile, it is refused. */
export function openUnmoved(path: string): SafeRoot {
  const root = openRoot(path);
  const { descriptor } = root;
  const found = descriptor === undefined ? realpathSync.native(path) : readlinkSync(`/proc/self/fd/${descriptor}`);
  if (found === path) return root;
  root.close();
  throw new SafeRootError('CHANGED', {});
}
