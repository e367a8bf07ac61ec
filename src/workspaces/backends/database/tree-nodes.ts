import { type AccessKind, assertAccess, type CheckAccess, joinNames } from '../../saferoot/check-access.ts';
import type { MoveResult } from '../../saferoot/move.ts';
import type { RemoveResult } from '../../saferoot/remove.ts';
import { asSafeRootError, SafeRootError } from '../../saferoot/saferoot-error.ts';
import { hasOnlyDots, parsePath, resolveDots, stripTrailingSlash } from '../../saferoot/walk-path.ts';
import type { FileListOptions, FileMoveOptions, FileRemoveOptions, ListedEntry, ListResult } from '../backend.ts';
import type { ContentRef, ObjectStore } from './objects.ts';
import type { EditableTree } from './tree-changes.ts';

export interface FileNode {
  readonly kind: 'file';
  readonly bytes: number;
  readonly mode: number;
  readonly modifiedMs: number;
  readonly version: string;
  /** Null for an empty file. */
  readonly content: ContentRef | null;
}

export interface FolderNode {
  readonly kind: 'folder';
  readonly modifiedMs: number;
  /** Counts entries at any depth, as `bytes` does. */
  readonly entries: number;
  readonly bytes: number;
  /** Null for an empty folder. */
  readonly content: ContentRef | null;
  /** The current entries of a folder that is being changed. `previous` is its former content. */
  readonly draft?: { readonly children: Map<string, TreeNode>; readonly previous: ContentRef | null };
}

export type TreeNode = FileNode | FolderNode;
export type FolderChildren = ReadonlyMap<string, TreeNode>;

export const createEmptyFolder = (modifiedMs: number): FolderNode => ({
  kind: 'folder',
  modifiedMs,
  entries: 0,
  bytes: 0,
  content: null,
});

type EncodedRow =
  | readonly [
      name: string,
      bytes: number,
      modifiedMs: number,
      content: ContentRef | null,
      mode: number,
      version: string,
    ]
  | readonly [name: string, bytes: number, modifiedMs: number, content: ContentRef | null, entries: number];

export function encodeFolder(children: FolderChildren): Buffer {
  const rows = [...children].map(([name, node]): EncodedRow => {
    const common = [name, node.bytes, node.modifiedMs, node.content] as const;
    return node.kind === 'file' ? [...common, node.mode, node.version] : [...common, node.entries];
  });
  return Buffer.from(JSON.stringify(rows));
}

function decodeFolder(text: string): FolderChildren {
  const rows = JSON.parse(text) as readonly EncodedRow[];
  return new Map(
    rows.map((row): [string, TreeNode] => {
      const [name, bytes, modifiedMs, content, last, version] = row;
      if (version === undefined) return [name, { kind: 'folder', bytes, modifiedMs, content, entries: last }];
      return [name, { kind: 'file', bytes, modifiedMs, content, mode: last, version }];
    }),
  );
}

export type ReadChildren = (folder: FolderNode) => Promise<FolderChildren>;

/** The number of cached names, over all folders. */
const maxCachedNames = 50_000;

/** Caches folders: a stored folder never changes. */
export function createChildrenReader(objects: ObjectStore): ReadChildren {
  const cache = new Map<string, FolderChildren>();
  let cachedNames = 0;

  return async function readChildren(folder) {
    if (folder.draft !== undefined) return folder.draft.children;
    if (folder.content === null) return new Map();
    const key = `${folder.content[0]}-${folder.content[1]}`;
    const cached = cache.get(key);
    if (cached !== undefined) return cached;
    const children = decodeFolder((await objects.readAll(folder.content)).toString());
    if (cachedNames > maxCachedNames) {
      cache.clear();
      cachedNames = 0;
    }
    cache.set(key, children);
    cachedNames += children.size;
    return children;
  };
}

export interface NodeWalkOptions {
  readonly access: AccessKind;
  /** Treats missing parents as if they existed; `all` the last one too. */
  readonly make?: 'parents' | 'all';
}

export interface TreeWalkResult {
  readonly names: readonly string[];
  /** The node, or undefined when the last name does not exist. */
  readonly node: TreeNode | undefined;
}

const maxDepth = 127;
const maxSteps = 1024;

/** Walks as a SafeRoot walks a folder, but without links. */
export async function walkTreePath(
  root: FolderNode,
  path: string,
  { access, make }: NodeWalkOptions,
  readChildren: ReadChildren,
  checkAccess: CheckAccess,
): Promise<TreeWalkResult> {
  const pending = parsePath(path).reverse();
  const names: string[] = [];
  /** Undefined below the last existing node. */
  const nodes: (TreeNode | undefined)[] = [root];
  let steps = 0;
  let name = '';

  async function advance(): Promise<void> {
    const here = nodes.at(-1) as FolderNode | undefined;
    const next = here && (await readChildren(here)).get(name);
    if (next === undefined) {
      const last = hasOnlyDots(pending);
      if (make === undefined ? !last || pending.length > 0 : make === 'parents' && last && pending.length > 0) {
        throw new SafeRootError('FILE_NOT_FOUND');
      }
    }
    names.push(name);
    nodes.push(next);
    if (names.length > maxDepth) throw new SafeRootError('TOO_DEEP');
    // Access is checked for each folder that would be made.
    if (next === undefined) assertAccess(checkAccess, access, names, undefined);
  }

  try {
    while (pending.length > 0) {
      name = pending.pop() as string;
      if (++steps > maxSteps) throw new SafeRootError('TOO_DEEP');
      if (nodes.at(-1)?.kind === 'file') throw new SafeRootError('NOT_A_DIRECTORY');
      if (name === '' || name === '.') continue;
      if (name !== '..') await advance();
      else if (names.length === 0) throw new SafeRootError('PATH_VIOLATION');
      else {
        assertAccess(checkAccess, 'read', names, 'folder');
        names.pop();
        nodes.pop();
      }
    }
  } catch (error) {
    const isDisclosed = error instanceof SafeRootError && ['NOT_ADMITTED', 'PATH_VIOLATION'].includes(error.code);
    // As in a folder, the existence of a protected entry is not revealed.
    if (!isDisclosed)
      assertAccess(checkAccess, access, resolveDots([...names, name, ...pending.toReversed()]), undefined);
    throw error;
  }
  const node = nodes.at(-1);
  assertAccess(checkAccess, access, names, node?.kind);
  return { names, node };
}

/** Checks access to everything in a folder by each path: the current one and the future one. */
async function assertTreeAccess(
  folder: FolderNode,
  paths: readonly (readonly string[])[],
  readChildren: ReadChildren,
  checkAccess: CheckAccess,
): Promise<void> {
  for (const [name, node] of await readChildren(folder)) {
    const childPaths = paths.map((way) => [...way, name]);
    for (const way of childPaths) assertAccess(checkAccess, 'write', way, node.kind);
    if (node.kind === 'folder') await assertTreeAccess(node, childPaths, readChildren, checkAccess);
  }
}

export async function listTreeFolder(
  folder: FolderNode,
  names: readonly string[],
  { limit = 10_000, facts = false }: FileListOptions,
  readChildren: ReadChildren,
  checkAccess: CheckAccess,
): Promise<ListResult> {
  const children = [...(await readChildren(folder))].sort(([one], [other]) => (one < other ? -1 : 1));
  const entries = children.slice(0, limit).map(([name, node]): ListedEntry => {
    const entry = { name, kind: node.kind };
    if (checkAccess('read', [...names, name], node.kind) !== undefined) return { ...entry, hidden: true };
    if (!facts) return entry;
    return { ...entry, bytes: node.kind === 'file' ? node.bytes : 0, modifiedMs: node.modifiedMs };
  });
  return { path: joinNames(names), entries, more: children.length > limit };
}

/** Moves in one change, so that nobody sees the entry at both names or at none. */
export async function moveInTree(
  tree: EditableTree,
  from: string,
  to: string,
  { overwrite = false }: FileMoveOptions,
  readChildren: ReadChildren,
  checkAccess: CheckAccess,
): Promise<MoveResult> {
  const source = await walkTreePath(tree.root, from, { access: 'write' }, readChildren, checkAccess);
  const { node } = source;
  if (node === undefined) throw new SafeRootError('FILE_NOT_FOUND');
  assertNotRoot(source.names);
  const target = await walkToTarget(node.kind === 'folder' && typeof to === 'string' ? stripTrailingSlash(to) : to);
  assertNotRoot(target.names, to);
  if (node.kind === 'folder') await assertTreeAccess(node, [source.names, target.names], readChildren, checkAccess);
  const moved = { from: joinNames(source.names), to: joinNames(target.names), kind: node.kind };
  if (target.node !== undefined) {
    if (!overwrite) throw new SafeRootError('EXISTS', { path: to });
    if (moved.from === moved.to) return { ...moved, folders: 0 };
    assertReplaceable(node, target.node, to);
  }
  if (node.kind === 'folder' && moved.to.startsWith(`${moved.from}/`)) throw new SafeRootError('INTO_ITSELF');
  if (target.node !== undefined) tree.drop(target.node);
  await tree.remove(source.names);
  await tree.put(target.names, node);
  return { ...moved, folders: tree.foldersMade() };

  /** Reports errors about the new name instead of the old one. */
  async function walkToTarget(targetPath: string): Promise<TreeWalkResult> {
    try {
      return await walkTreePath(tree.root, targetPath, { access: 'write', make: 'parents' }, readChildren, checkAccess);
    } catch (error) {
      throw asSafeRootError(error, to);
    }
  }
}

function assertNotRoot(names: readonly string[], path?: string): void {
  if (names.length === 0) throw new SafeRootError('PATH_VIOLATION', { what: 'is the folder itself', path });
}

/** A file may replace a file, a folder an empty folder. */
function assertReplaceable(node: TreeNode, old: TreeNode, to: string): void {
  if (old.kind === 'file' && node.kind === 'folder') throw new SafeRootError('NOT_A_DIRECTORY', { path: to });
  if (old.kind === 'folder' && node.kind === 'file') throw new SafeRootError('IS_A_DIRECTORY', { path: to });
  if (old.kind === 'folder' && old.entries > 0) throw new SafeRootError('NOT_EMPTY', { path: to });
}

/** Removes an entry from the tree, a folder with all that is in it. */
export async function removeFromTree(
  tree: EditableTree,
  path: string,
  { recursive = false, maxEntries = 100_000 }: FileRemoveOptions,
  readChildren: ReadChildren,
  checkAccess: CheckAccess,
): Promise<RemoveResult> {
  const { names, node } = await walkTreePath(tree.root, path, { access: 'write' }, readChildren, checkAccess);
  if (node === undefined) throw new SafeRootError('FILE_NOT_FOUND');
  assertNotRoot(names);
  const below = node.kind === 'folder' ? node.entries : 0;
  if (below > 0 && !recursive) throw new SafeRootError('NOT_EMPTY');
  if (below > maxEntries) throw new SafeRootError('TOO_MANY_ENTRIES');
  if (node.kind === 'folder') await assertTreeAccess(node, [names], readChildren, checkAccess);
  tree.drop(node);
  await tree.remove(names);
  return { path: joinNames(names), kind: node.kind, entries: below + 1 };
}
