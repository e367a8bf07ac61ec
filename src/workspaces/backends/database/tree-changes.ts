import { randomBytes } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { AmbitError } from '../../../errors.ts';
import { createKeyedMutex, type KeyedMutex } from '../../../lib/async/mutex.ts';
import type { Documents } from '../../../stores/documents.ts';
import { SafeRootError } from '../../saferoot/saferoot-error.ts';
import { type ContentRef, countPieces, type ObjectStore } from './objects.ts';
import { createEmptyFolder, encodeFolder, type FolderNode, type ReadChildren, type TreeNode } from './tree-nodes.ts';
import type { IntentLog, WriteOperation } from './write-intents.ts';

/** The tree during a change: folders on the path to a change are copied, all others stay. */
interface TreeDraft {
  readonly root: FolderNode;
  readonly isChanged: () => boolean;
  readonly foldersMade: () => number;
  makeFolder(names: readonly string[]): Promise<void>;
  put(names: readonly string[], node: TreeNode): Promise<void>;
  remove(names: readonly string[]): Promise<void>;
}

interface DraftFolder extends FolderNode {
  modifiedMs: number;
  readonly draft: NonNullable<FolderNode['draft']>;
}

interface EncodedDraft {
  readonly root: FolderNode;
  readonly writes: readonly (readonly [ContentRef, Buffer])[];
  /** The former content of changed folders. */
  readonly stale: readonly ContentRef[];
}

export interface EditableTree extends TreeDraft {
  /** Adds bytes that are written before the change takes effect. */
  add(content: Uint8Array): ContentRef | null;
  /** Drops a node that nothing refers to after the change. */
  drop(node: TreeNode): void;
}

export interface TreeChanges {
  root(): Promise<FolderNode>;
  /** Repeats the work from the start while others are faster; it may change nothing but the draft. */
  change<T>(work: (tree: EditableTree) => Promise<T>, early?: UploadedContent): Promise<T>;
  /** Writes bytes ahead of a change, so that others need not wait for them. */
  upload(content: Uint8Array): Promise<UploadedContent>;
  discard(uploaded: UploadedContent): Promise<void>;
}

interface UploadedContent {
  readonly operation: WriteOperation;
  readonly content: ContentRef;
}

export interface TreeChangesParts {
  readonly documents: Documents;
  readonly objects: ObjectStore;
  readonly intents: IntentLog;
  readonly readChildren: ReadChildren;
  readonly maxBytes: number;
  readonly maxEntries: number;
  /** The longest time for a change: after it, what the change wrote may be swept. */
  readonly maxChangeMs: number;
}

const maxAttempts = 100;
/** Changes of one store in this process run one at a time; only other processes cause conflicts. */
const mutexes = new WeakMap<Documents, KeyedMutex>();

export function createTreeChanges(parts: TreeChangesParts): TreeChanges {
  const { documents, objects, intents, readChildren, maxChangeMs } = parts;
  const runExclusive = mutexes.get(documents) ?? createKeyedMutex();
  mutexes.set(documents, runExclusive);

  async function readRoot(): Promise<{ readonly root: FolderNode; readonly version: number }> {
    const found = await documents.get(objects.collection, 'root');
    if (found === undefined) return { root: createEmptyFolder(0), version: 0 };
    return { root: JSON.parse(found.text) as FolderNode, version: found.version };
  }

  async function tryChange<T>(work: (tree: EditableTree) => Promise<T>, operation: WriteOperation, firstPiece: number) {
    const { root: before, version } = await readRoot();
    const draft = await createDraft(before, readChildren);
    const writes: (readonly [ContentRef, Uint8Array])[] = [];
    const [stale, trees]: [ContentRef[], ContentRef[]] = [[], []];
    let nextPiece = firstPiece;
    const nextRef = (pieces: number): ContentRef => {
      nextPiece += pieces;
      return [operation.name, nextPiece - pieces, pieces];
    };
    const result = await work({
      ...draft,
      add(content) {
        if (content.byteLength === 0) return null;
        const ref = nextRef(countPieces(content.byteLength));
        writes.push([ref, content]);
        return ref;
      },
      drop({ kind, content }) {
        if (content !== null) (kind === 'folder' ? trees : stale).push(content);
      },
    });
    if (!draft.isChanged()) return { done: true, result, fresh: [], next: nextPiece };
    const encoded = encodeDraft(draft.root, nextRef);
    assertCapacity(before, encoded.root);
    writes.push(...encoded.writes);
    const fresh = writes.map(([ref]) => ref);
    await intents.record(operation, { fresh, stale: [...stale, ...encoded.stale], trees });
    for (const [ref, content] of writes) await objects.put(ref, content);
    if (Date.now() - operation.startedMs > maxChangeMs) throw tooSlowError();
    const text = JSON.stringify(encoded.root);
    const { outcome } = await documents.put(objects.collection, 'root', text, { expectedVersion: version });
    return { done: outcome === 'written', result, fresh, next: nextPiece };
  }

  function assertCapacity(before: FolderNode, after: FolderNode): void {
    const full =
      (after.bytes > parts.maxBytes && after.bytes > before.bytes) ||
      (after.entries > parts.maxEntries && after.entries > before.entries);
    if (full) throw new AmbitError('WORKSPACE_FULL', { what: 'The workspace has reached its size limit.' });
  }

  const createOperation = (): WriteOperation => ({ name: randomBytes(12).toString('hex'), startedMs: Date.now() });

  return {
    root: async () => (await readRoot()).root,

    change: (work, early) =>
      runExclusive(objects.collection, async () => {
        // Uploaded bytes have an intent of their own; only their start time counts.
        const operation = { ...createOperation(), ...(early && { startedMs: early.operation.startedMs }) };
        for (let [left, next] = [maxAttempts, 0]; left > 0; left--) {
          const tried = await tryChange(work, operation, next);
          if (tried.done) return tried.result;
          next = tried.next;
          for (const ref of tried.fresh) await objects.delete(ref);
          await pause(Math.random() * Math.min(100, 4 * (maxAttempts - left + 1)));
        }
        throw new AmbitError('WORKSPACE_UNAVAILABLE', { what: 'Too many writes happen here at the same time.' });
      }),

    async upload(content) {
      const operation = createOperation();
      const ref: ContentRef = [operation.name, 0, countPieces(content.byteLength)];
      await intents.record(operation, { fresh: [ref], stale: [], trees: [] });
      await objects.put(ref, content);
      return { operation, content: ref };
    },

    async discard({ operation, content }) {
      await objects.delete(content);
      await intents.forget(operation);
    },
  };
}

const tooSlowError = () =>
  new AmbitError('WORKSPACE_UNAVAILABLE', { what: 'Writing took too long, so nothing was changed.' });

async function createDraft(root: FolderNode, readChildren: ReadChildren): Promise<TreeDraft> {
  const now = Date.now();
  let foldersMade = 0;
  let isChanged = false;

  const copyFolder = async (folder: FolderNode): Promise<DraftFolder> => ({
    ...folder,
    draft: { children: new Map(await readChildren(folder)), previous: folder.content },
  });
  const rootDraft = await copyFolder(root);

  async function editFolder(names: readonly string[]): Promise<DraftFolder> {
    let folder = rootDraft;
    for (const name of names) {
      const child = folder.draft.children.get(name);
      if (child?.kind === 'file') throw new SafeRootError('NOT_A_DIRECTORY');
      const next =
        child?.draft === undefined ? await copyFolder(child ?? createEmptyFolder(now)) : (child as DraftFolder);
      if (child === undefined) {
        foldersMade++;
        isChanged = true;
        folder.modifiedMs = now;
      }
      folder.draft.children.set(name, next);
      folder = next;
    }
    return folder;
  }

  async function editParent(names: readonly string[]): Promise<DraftFolder> {
    const parent = await editFolder(names.slice(0, -1));
    parent.modifiedMs = now;
    isChanged = true;
    return parent;
  }

  return {
    root: rootDraft,
    isChanged: () => isChanged,
    foldersMade: () => foldersMade,
    makeFolder: async (names) => void (await editFolder(names)),
    put: async (names, node) => void (await editParent(names)).draft.children.set(names.at(-1) as string, node),
    remove: async (names) => void (await editParent(names)).draft.children.delete(names.at(-1) as string),
  };
}

/** Encodes the changed folders, innermost first, since outer folders refer to them. */
function encodeDraft(root: FolderNode, nextRef: (pieces: number) => ContentRef): EncodedDraft {
  const writes: [ContentRef, Buffer][] = [];
  const stale: ContentRef[] = [];

  function encodeChanged(folder: FolderNode): FolderNode {
    if (folder.draft === undefined) return folder;
    const { children, previous } = folder.draft;
    let [entries, bytes] = [0, 0];
    for (const [name, node] of children) {
      const now = node.kind === 'folder' ? encodeChanged(node) : node;
      if (now !== node) children.set(name, now);
      entries += 1 + (now.kind === 'folder' ? now.entries : 0);
      bytes += now.bytes;
    }
    if (previous !== null) stale.push(previous);
    let content: ContentRef | null = null;
    if (children.size > 0) {
      const written = encodeFolder(children);
      content = nextRef(countPieces(written.length));
      writes.push([content, written]);
    }
    return { kind: 'folder', modifiedMs: folder.modifiedMs, entries, bytes, content };
  }

  return { root: encodeChanged(root), writes, stale };
}
