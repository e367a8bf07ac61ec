import { SafeRootError } from '../../saferoot/saferoot-error.ts';
import { type ChildrenOf, emptyFolder, encodeFolder, type FolderNode, type Node } from './nodes.ts';
import { piecesOf, type Ref } from './objects.ts';

/** The tree while it is changed: folders on the way to a change are copied, all others stay as they are. */
export interface Draft {
  readonly root: FolderNode;
  readonly changed: () => boolean;
  /** How many folders were made so far. */
  readonly made: () => number;
  makeFolder(names: readonly string[]): Promise<void>;
  put(names: readonly string[], node: Node): Promise<void>;
  take(names: readonly string[]): Promise<void>;
}

interface DraftFolder extends FolderNode {
  modifiedMs: number;
  readonly draft: NonNullable<FolderNode['draft']>;
}

export async function draftOf(root: FolderNode, childrenOf: ChildrenOf): Promise<Draft> {
  const now = Date.now();
  let made = 0;
  let changed = false;

  const copied = async (folder: FolderNode): Promise<DraftFolder> => ({
    ...folder,
    draft: { children: new Map(await childrenOf(folder)), was: folder.content },
  });
  const top = await copied(root);

  async function folderAt(names: readonly string[]): Promise<DraftFolder> {
    let here = top;
    for (const name of names) {
      const child = here.draft.children.get(name);
      if (child?.kind === 'file') throw new SafeRootError('NOT_A_DIRECTORY');
      const next = child?.draft === undefined ? await copied(child ?? emptyFolder(now)) : (child as DraftFolder);
      if (child === undefined) {
        made++;
        changed = true;
        here.modifiedMs = now;
      }
      here.draft.children.set(name, next);
      here = next;
    }
    return here;
  }

  async function parentOf(names: readonly string[]): Promise<DraftFolder> {
    const parent = await folderAt(names.slice(0, -1));
    parent.modifiedMs = now;
    changed = true;
    return parent;
  }

  return {
    root: top,
    changed: () => changed,
    made: () => made,
    makeFolder: async (names) => void (await folderAt(names)),
    put: async (names, node) => void (await parentOf(names)).draft.children.set(names.at(-1) as string, node),
    take: async (names) => void (await parentOf(names)).draft.children.delete(names.at(-1) as string),
  };
}

export interface Settled {
  readonly root: FolderNode;
  readonly writes: readonly (readonly [Ref, Buffer])[];
  /** What the folders that were changed had been written as. */
  readonly stale: readonly Ref[];
}

/** The folders that were changed, as they are to be written: the innermost first, for the outer ones name them. */
export function settle(root: FolderNode, nextRef: (pieces: number) => Ref): Settled {
  const writes: [Ref, Buffer][] = [];
  const stale: Ref[] = [];

  function settled(folder: FolderNode): FolderNode {
    if (folder.draft === undefined) return folder;
    const { children, was } = folder.draft;
    let [entries, bytes] = [0, 0];
    for (const [name, node] of children) {
      const now = node.kind === 'folder' ? settled(node) : node;
      if (now !== node) children.set(name, now);
      entries += 1 + (now.kind === 'folder' ? now.entries : 0);
      bytes += now.bytes;
    }
    if (was !== null) stale.push(was);
    let content: Ref | null = null;
    if (children.size > 0) {
      const written = encodeFolder(children);
      content = nextRef(piecesOf(written.length));
      writes.push([content, written]);
    }
    return { kind: 'folder', modifiedMs: folder.modifiedMs, entries, bytes, content };
  }

  return { root: settled(root), writes, stale };
}
