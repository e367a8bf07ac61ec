import type { Objects, Ref } from './objects.ts';

export interface FileNode {
  readonly kind: 'file';
  readonly bytes: number;
  readonly mode: number;
  readonly modifiedMs: number;
  readonly version: string;
  /** None for an empty file. */
  readonly content: Ref | null;
}

export interface FolderNode {
  readonly kind: 'folder';
  readonly modifiedMs: number;
  /** Files and folders in it, at any depth. */
  readonly entries: number;
  /** Of all files in it, at any depth. */
  readonly bytes: number;
  /** None for an empty folder. */
  readonly content: Ref | null;
  /** Of a folder that is being changed: what is in it now. `was` is what it was written as before. */
  readonly draft?: { readonly children: Map<string, Node>; readonly was: Ref | null };
}

export type Node = FileNode | FolderNode;
export type Children = ReadonlyMap<string, Node>;

export const emptyFolder = (modifiedMs: number): FolderNode => ({
  kind: 'folder',
  modifiedMs,
  entries: 0,
  bytes: 0,
  content: null,
});

type Row =
  | readonly [name: string, bytes: number, modifiedMs: number, content: Ref | null, mode: number, version: string]
  | readonly [name: string, bytes: number, modifiedMs: number, content: Ref | null, entries: number];

export function encodeFolder(children: Children): Buffer {
  const rows = [...children].map(([name, node]): Row => {
    const both = [name, node.bytes, node.modifiedMs, node.content] as const;
    return node.kind === 'file' ? [...both, node.mode, node.version] : [...both, node.entries];
  });
  return Buffer.from(JSON.stringify(rows));
}

function decodeFolder(text: string): Children {
  const rows = JSON.parse(text) as readonly Row[];
  return new Map(
    rows.map((row): [string, Node] => {
      const [name, bytes, modifiedMs, content, last, version] = row;
      if (version === undefined) return [name, { kind: 'folder', bytes, modifiedMs, content, entries: last }];
      return [name, { kind: 'file', bytes, modifiedMs, content, mode: last, version }];
    }),
  );
}

export type ChildrenOf = (folder: FolderNode) => Promise<Children>;

/** So many names are kept at hand, over all folders. */
const mostNames = 50_000;

/** What is written as a folder never changes, so what was read once need not be read again. */
export function createChildrenOf(objects: Objects): ChildrenOf {
  const known = new Map<string, Children>();
  let names = 0;

  return async function childrenOf(folder) {
    if (folder.draft !== undefined) return folder.draft.children;
    if (folder.content === null) return new Map();
    const key = `${folder.content[0]}-${folder.content[1]}`;
    const there = known.get(key);
    if (there !== undefined) return there;
    const children = decodeFolder((await objects.whole(folder.content)).toString());
    if (names > mostNames) {
      known.clear();
      names = 0;
    }
    known.set(key, children);
    names += children.size;
    return children;
  };
}
