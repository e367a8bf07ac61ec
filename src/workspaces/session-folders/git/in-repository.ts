import type { SafeRoot } from '../../saferoot/open-root.ts';
import { unlessGone } from '../walk-tree.ts';

/** Says why a path is closed because of where it lies; undefined when it is open. */
export type InRepository = (path: string) => Promise<string | undefined>;

/**
 * Git takes a folder for a repository by what it holds, whatever it is called. What lies in one is judged as if it lay in
 * `.git`. Each folder is looked at once.
 */
export function createInRepository(workspace: SafeRoot, closed: (path: string) => string | undefined): InRepository {
  const known = new Map<string, Promise<boolean>>();
  const isRepository = (folder: string): Promise<boolean> => {
    const judged = known.get(folder) ?? looksLikeRepository(workspace, folder);
    known.set(folder, judged);
    return judged;
  };
  return async (path) => {
    const parts = path.split('/');
    for (const [depth, name] of parts.entries()) {
      const above = parts.slice(0, depth);
      if (closed([...above, '.git', name].join('/')) === undefined) continue;
      if (await isRepository(above.join('/'))) return 'lies in a git repository, which sessions may not change';
    }
    return undefined;
  };
}

async function looksLikeRepository(workspace: SafeRoot, folder: string): Promise<boolean> {
  const has = async (name: string) => {
    const path = folder === '' ? name : `${folder}/${name}`;
    return (await unlessGone(workspace.stat(path, { link: true }))) !== undefined;
  };
  return (await has('HEAD')) && ((await has('commondir')) || ((await has('objects')) && (await has('refs'))));
}
