import type { ContentRef, ObjectStore } from './objects.ts';

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
