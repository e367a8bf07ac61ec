import { relative } from 'node:path';
import { AmbitError } from '../../errors.ts';
import { sha256Hex } from '../../lib/json/canonical-json.ts';
import { openRoot, type SafeRoot } from '../saferoot/open-root.ts';
import { withOpen } from '../saferoot/read.ts';
import { quotePath, SafeRootError } from '../saferoot/saferoot-error.ts';
import type { FolderPaths, FolderRecord } from './folder-record.ts';
import type { RunGit } from './git/git.ts';
import { listIgnoredFiles, shadowPaths } from './original-files.ts';
import { type BaseSnapshot, isSameContent, type PathContent, readContent } from './snapshot.ts';
import { walkTree } from './walk-tree.ts';

/** Further entries are left to git, which has a timeout. */
const maxEntries = 2_000_000;

/** A path at which a session's folder differs from its base. */
export interface FolderChange {
  readonly path: string;
  /** Undefined where there was nothing, or nothing is left. */
  readonly before: PathContent | undefined;
  readonly after: PathContent | undefined;
}

/** Compares a folder with its base. The changes are sorted by path; folders themselves do not count. */
export async function compareWithBase(
  root: SafeRoot,
  base: BaseSnapshot,
  isIgnored: (path: string, isFolder: boolean) => boolean = () => false,
  onUnnamed?: () => void,
): Promise<FolderChange[]> {
  const changes: FolderChange[] = [];
  const seen = new Set<string>();
  const compare = async (path: string): Promise<void> => {
    const before = base.get(path);
    const after = await readContent(root, path, before);
    seen.add(path);
    if (!isSameContent(before, after)) changes.push({ path, before, after });
  };
  // The git folder is no work of the session and differs all the time.
  const skip = (path: string, isFolder: boolean) => path === '.git' || (!base.has(path) && isIgnored(path, isFolder));
  for await (const { path, kind } of walkTree(root, skip, onUnnamed)) if (kind !== 'folder') await compare(path);
  // Deleted, or in a folder that is ignored now.
  for (const path of base.keys()) if (!seen.has(path)) await compare(path);
  return changes.sort((one, other) => (one.path < other.path ? -1 : 1));
}

/**
 * Names changes by their paths, kinds, modes and contents. A person who has seen them can have exactly these merged.
 * `shown` has what was read of single files after the comparison.
 */
export function hashChanges(changes: readonly FolderChange[], shown?: ReadonlyMap<string, PathContent>): string {
  const rows = changes.map(({ path, before, after }) => [path, describe(before), describe(shown?.get(path) ?? after)]);
  return sha256Hex(JSON.stringify(rows));
}

function describe(content: PathContent | undefined): readonly unknown[] | null {
  if (content === undefined) return null;
  return content.kind === 'link' ? ['link', content.target] : ['file', content.sha256, content.executable];
}

/** Finds all unmerged changes of a session, in a worktree without files that git ignores. */
export async function findChanges(
  git: RunGit,
  root: SafeRoot,
  base: BaseSnapshot,
  paths: FolderPaths,
  record: FolderRecord,
  onUnnamed?: () => void,
): Promise<FolderChange[]> {
  const ignored = new Set(await listIgnored(git, paths, record));
  return compareWithBase(root, base, (path, isFolder) => ignored.has(isFolder ? `${path}/` : path), onUnnamed);
}

/** Lists what git ignores; folders end in "/". */
async function listIgnored(git: RunGit, paths: FolderPaths, { origin, tree, path }: FolderRecord): Promise<string[]> {
  if (origin === null) return [];
  const prefix = relative(tree, path);
  await assertIgnoreFiles(tree);
  const listed = await listIgnoredFiles(git, shadowPaths(paths.shadow, origin.commonDir, tree));
  if (prefix === '') return listed;
  return listed.flatMap((name) => (name.startsWith(`${prefix}/`) ? [name.slice(prefix.length + 1)] : []));
}

/** The changes that the workspace does not have yet. */
export async function findUnmerged(workspace: SafeRoot, changes: readonly FolderChange[]): Promise<FolderChange[]> {
  const missing: FolderChange[] = [];
  for (const change of changes) {
    if (!isSameContent(await readContent(workspace, change.path), change.after)) missing.push(change);
  }
  return missing;
}

/**
 * Refuses a session's folder with a `.gitignore` that git would wait for or cannot read: git would go on without its
 * rules, or not at all. Git ignores a link or a folder of that name, and they show as changes.
 */
async function assertIgnoreFiles(tree: string): Promise<void> {
  await withOpen(openRoot(tree), async (root) => {
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
  });
}

/** Lists a folder; nothing where it is gone or unreadable, since reading its files fails later where it matters. */
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
    // An account that may read everything would not notice the mode, but git in its sandbox would.
    if ((mode & 0o400) === 0) throw new SafeRootError('NO_PERMISSION');
    const file = await root.open(path);
    await file.close();
  } catch (error) {
    if (!(error instanceof SafeRootError)) throw error;
    if (error.code === 'FILE_NOT_FOUND') return;
    throw new AmbitError('WORKSPACE_UNAVAILABLE', {
      what: `${quotePath(path)} in the session's folder is not a readable regular file, so git cannot determine the ignored files.`,
      hint: 'Remove it in the session, or replace it with a readable regular file, then try again.',
      cause: error,
    });
  }
}
