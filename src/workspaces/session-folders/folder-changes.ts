import { relative } from 'node:path';
import type { SafeRoot } from '../saferoot/open-root.ts';
import { assertIgnoreFiles } from './assert-ignore-files.ts';
import { type Change, changesIn, ignoredBy } from './changes.ts';
import type { FolderPlace, FolderRecord } from './folder-record.ts';
import type { RunGit } from './git/git.ts';
import { ignoredIn, throughShadow } from './git/shadow.ts';
import { type Base, contentAt, isSame } from './snapshot.ts';

/** All that the session changed and that was not merged; without what git ignores, where the folder is a worktree. */
export async function changesOf(
  git: RunGit,
  root: SafeRoot,
  base: Base,
  place: FolderPlace,
  record: FolderRecord,
): Promise<Change[]> {
  return changesIn(root, base, ignoredBy(await ignored(git, place, record)));
}

async function ignored(git: RunGit, place: FolderPlace, { origin, tree, path }: FolderRecord): Promise<string[]> {
  if (origin === null) return [];
  const prefix = relative(tree, path);
  await assertIgnoreFiles(tree);
  const listed = await ignoredIn(git, throughShadow(place.shadow, origin.commonDir, tree));
  if (prefix === '') return listed;
  return listed.flatMap((name) => (name.startsWith(`${prefix}/`) ? [name.slice(prefix.length + 1)] : []));
}

/** Those that the workspace does not hold already, however they got there. */
export async function missingFrom(workspace: SafeRoot, changes: readonly Change[]): Promise<Change[]> {
  const missing: Change[] = [];
  for (const change of changes) {
    if (!isSame(await contentAt(workspace, change.path), change.after)) missing.push(change);
  }
  return missing;
}
