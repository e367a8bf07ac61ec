import { relative } from 'node:path';
import { AmbitError } from '../../errors.ts';
import { openRoot, type SafeRoot } from '../saferoot/open-root.ts';
import { SafeRootError } from '../saferoot/saferoot-error.ts';
import { shownPath } from '../shown-path.ts';
import type { FolderPaths, FolderRecord } from './folder-record.ts';
import type { RunGit } from './git/git.ts';
import { listIgnoredFiles, shadowPaths } from './git/shadow-repository.ts';
import { type BaseSnapshot, isSameContent, type PathContent, readContent } from './snapshot.ts';
import { walkTree } from './walk-tree.ts';

/** Beyond these it is left to git, whose time is limited. */
const maxEntries = 2_000_000;

/** A path at which a session's folder differs from where it started. */
export interface FolderChange {
  readonly path: string;
  /** Undefined where there was nothing, or is nothing any more. */
  readonly before: PathContent | undefined;
  readonly after: PathContent | undefined;
}

/** What git would not look at, as it lists it: folders end in "/". */
export function createIgnoreTest(listed: readonly string[]): (path: string, isFolder: boolean) => boolean {
  const all = new Set(listed);
  return (path, isFolder) => all.has(isFolder ? `${path}/` : path);
}

/** Sorted by path. Folders do not count, only what is in them. */
export async function compareWithBase(
  root: SafeRoot,
  base: BaseSnapshot,
  isIgnored: (path: string, isFolder: boolean) => boolean = () => false,
): Promise<FolderChange[]> {
  const changes: FolderChange[] = [];
  const seen = new Set<string>();
  const compare = async (path: string): Promise<void> => {
    const before = base.get(path);
    const after = await readContent(root, path, before);
    seen.add(path);
    if (!isSameContent(before, after)) changes.push({ path, before, after });
  };
  // What git keeps there is no work of the session's, and differs all the time.
  const skip = (path: string, isFolder: boolean) => path === '.git' || (!base.has(path) && isIgnored(path, isFolder));
  for await (const { path, kind } of walkTree(root, { skip })) if (kind !== 'folder') await compare(path);
  // Gone, or in a folder that is ignored by now.
  for (const path of base.keys()) if (!seen.has(path)) await compare(path);
  return changes.sort((one, other) => (one.path < other.path ? -1 : 1));
}

/** All that the session changed and that was not merged; without what git ignores, where the folder is a worktree. */
export async function findChanges(
  git: RunGit,
  root: SafeRoot,
  base: BaseSnapshot,
  paths: FolderPaths,
  record: FolderRecord,
): Promise<FolderChange[]> {
  return compareWithBase(root, base, createIgnoreTest(await listIgnored(git, paths, record)));
}

async function listIgnored(git: RunGit, paths: FolderPaths, { origin, tree, path }: FolderRecord): Promise<string[]> {
  if (origin === null) return [];
  const prefix = relative(tree, path);
  await assertIgnoreFiles(tree);
  const listed = await listIgnoredFiles(git, shadowPaths(paths.shadow, origin.commonDir, tree));
  if (prefix === '') return listed;
  return listed.flatMap((name) => (name.startsWith(`${prefix}/`) ? [name.slice(prefix.length + 1)] : []));
}

/** Those that the workspace does not hold already, however they got there. */
export async function findUnmerged(workspace: SafeRoot, changes: readonly FolderChange[]): Promise<FolderChange[]> {
  const missing: FolderChange[] = [];
  for (const change of changes) {
    if (!isSameContent(await readContent(workspace, change.path), change.after)) missing.push(change);
  }
  return missing;
}

/**
 * Refuses a session's folder in which something stands in place of a `.gitignore` that git waits for or cannot read: git
 * would go on without its rules, or not at all. A link and a folder of that name say nothing to git, and show as changes.
 */
async function assertIgnoreFiles(tree: string): Promise<void> {
  const root = openRoot(tree);
  try {
    let left = maxEntries;
    const ahead = ['.'];
    for (let folder = ahead.pop(); folder !== undefined && left > 0; folder = ahead.pop()) {
      for (const { name, kind, unrepresentable } of await listEntries(root, folder, left)) {
        left--;
        if (unrepresentable) continue;
        const path = folder === '.' ? name : `${folder}/${name}`;
        if (name === '.gitignore' && kind !== 'folder') await assertReadable(root, path);
        else if (kind === 'folder' && path !== '.git') ahead.push(path);
      }
    }
  } finally {
    root.close();
  }
}

/** None where it is gone or closed to us: whoever reads the files meets the same, where git does not ignore it. */
async function listEntries(root: SafeRoot, folder: string, limit: number) {
  try {
    return (await root.list(folder, { limit })).entries;
  } catch (error) {
    if (error instanceof SafeRootError) return [];
    throw error;
  }
}

async function assertReadable(root: SafeRoot, path: string): Promise<void> {
  try {
    const { kind, mode } = await root.stat(path, { link: true });
    if (kind === 'link') return;
    // An account that may read everything would not notice, but git in its sandbox would.
    if ((mode & 0o400) === 0) throw new SafeRootError('NO_PERMISSION');
    const file = await root.open(path);
    await file.close();
  } catch (error) {
    if (!(error instanceof SafeRootError)) throw error;
    if (error.code === 'FILE_NOT_FOUND') return;
    throw new AmbitError('WORKSPACE_UNAVAILABLE', {
      what: `${shownPath(path)} in the session's folder is no plain file that can be read, so git cannot say what is ignored.`,
      hint: 'Remove it in the session, or make it a plain file that can be read, and try again.',
      cause: error,
    });
  }
}
