import type { SafeRoot } from '../saferoot/open-root.ts';
import { type Base, type Content, contentAt, isSame } from './snapshot.ts';
import { walkTree } from './walk-tree.ts';

/** A path at which a session's folder differs from where it started. */
export interface Change {
  readonly path: string;
  /** Undefined where there was nothing, or is nothing any more. */
  readonly before: Content | undefined;
  readonly after: Content | undefined;
}

/** What git would not look at, as it lists it: folders end in "/". */
export function ignoredBy(listed: readonly string[]): (path: string, isFolder: boolean) => boolean {
  const all = new Set(listed);
  return (path, isFolder) => all.has(isFolder ? `${path}/` : path);
}

/** Sorted by path. Folders do not count, only what is in them. */
export async function changesIn(
  root: SafeRoot,
  base: Base,
  isIgnored: (path: string, isFolder: boolean) => boolean = () => false,
): Promise<Change[]> {
  const changes: Change[] = [];
  const seen = new Set<string>();
  const compare = async (path: string): Promise<void> => {
    const before = base.get(path);
    const after = await contentAt(root, path, before);
    seen.add(path);
    if (!isSame(before, after)) changes.push({ path, before, after });
  };
  // What git keeps there is no work of the session's, and differs all the time.
  const skip = (path: string, isFolder: boolean) => path === '.git' || (!base.has(path) && isIgnored(path, isFolder));
  for await (const { path, kind } of walkTree(root, { skip })) if (kind !== 'folder') await compare(path);
  // Gone, or in a folder that is ignored by now.
  for (const path of base.keys()) if (!seen.has(path)) await compare(path);
  return changes.sort((one, other) => (one.path < other.path ? -1 : 1));
}
