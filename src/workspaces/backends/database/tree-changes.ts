import { randomBytes } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { AmbitError } from '../../../errors.ts';
import { createKeyedMutex, type KeyedMutex } from '../../../lib/async/mutex.ts';
import type { Documents } from '../../../stores/documents.ts';
import { SafeRootError } from '../../saferoot/saferoot-error.ts';
import { type ContentRef, countPieces, type ObjectStore } from './objects.ts';
import { createEmptyFolder, encodeFolder, type FolderNode, type ReadChildren, type TreeNode } from './tree-nodes.ts';

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

/** The number of intents handled in one sweep. */
const maxIntents = 1000;

const folderFromRef = (content: ContentRef): FolderNode => ({ ...createEmptyFolder(0), content });

const refKey = ([operation, first]: ContentRef): string => `${operation}-${first}`;

/**
 * The objects that an operation is about to write, and those that nothing refers to after it. It is stored first, so
 * that all garbage is found later, whatever becomes of the operation.
 */
interface WriteIntent {
  readonly fresh: readonly ContentRef[];
  readonly stale: readonly ContentRef[];
  /** Folders that are removed with all their entries. */
  readonly trees: readonly ContentRef[];
}

interface StoredIntent extends WriteIntent {
  readonly startedMs: number;
  forget(): Promise<void>;
}

interface IntentLog {
  record(operation: WriteOperation, intent: WriteIntent): Promise<void>;
  forget(operation: WriteOperation): Promise<void>;
  hasAny(): Promise<boolean>;
  list(): Promise<readonly StoredIntent[]>;
}

interface WriteOperation {
  readonly name: string;
  readonly startedMs: number;
}

/** Spreads intents over collections, since each has a limit. */
const shardCount = 16;

export function createIntentLog(documents: Documents, { collection }: ObjectStore): IntentLog {
  const intentKey = ({ name, startedMs }: WriteOperation) => `${String(startedMs).padStart(15, '0')}-${name}`;
  const shardName = (index: number) => `${collection}-s${index.toString(16)}`;
  const findShard = ({ name }: WriteOperation) => shardName(Number.parseInt(name.slice(0, 4), 16) % shardCount);

  async function listShard(shard: string): Promise<StoredIntent[]> {
    const found: StoredIntent[] = [];
    for (let after: string | null | undefined; after !== null; ) {
      const page = await documents.list(shard, { limit: 1000, ...(after === undefined ? {} : { after }) });
      for (const { key, text } of page.documents) {
        const forget = async () => void (await documents.delete(shard, key));
        found.push({ ...(JSON.parse(text) as WriteIntent), startedMs: Number(key.slice(0, 15)), forget });
      }
      after = page.next;
    }
    return found;
  }

  return {
    async record(operation, intent) {
      const { outcome } = await documents.put(findShard(operation), intentKey(operation), JSON.stringify(intent));
      if (outcome === 'written') return;
      throw new AmbitError('WORKSPACE_UNAVAILABLE', { what: 'Too much was written here in a short time.' });
    },
    forget: async (operation) => void (await documents.delete(findShard(operation), intentKey(operation))),

    async hasAny() {
      for (let index = 0; index < shardCount; index++) {
        if ((await documents.list(shardName(index), { limit: 1 })).documents.length > 0) return true;
      }
      return false;
    },

    async list() {
      const found: StoredIntent[] = [];
      for (let index = 0; index < shardCount; index++) found.push(...(await listShard(shardName(index))));
      return found;
    },
  };
}

/**
 * Deletes garbage of old operations: unfinished writes and replaced objects. An object that is not in the tree now can
 * never return to it, since its writer had to finish by then. Objects that younger operations removed stay for their
 * readers and for a later sweep.
 */
export async function sweepGarbage(
  { root }: TreeChanges,
  intents: IntentLog,
  objects: ObjectStore,
  readChildren: ReadChildren,
  graceMs: number,
): Promise<number> {
  if (!(await intents.hasAny())) return 0;
  const before = Date.now() - graceMs;
  // The tree is read first: objects that are removed from here on still count as needed.
  const needed = new Set<string>();
  await markNeeded(await root());
  const stored = await intents.list();
  const old = stored.filter(({ startedMs }) => startedMs < before).slice(0, maxIntents);
  for (const { stale, trees } of stored.filter((intent) => !old.includes(intent))) {
    for (const ref of stale) needed.add(refKey(ref));
    for (const ref of trees) await markNeeded(folderFromRef(ref));
  }
  let deleted = 0;
  // Whole trees first: the folder that leads into them may be among the single objects.
  for (const { trees } of old) for (const ref of trees) await deleteTree(ref);
  for (const { fresh, stale, forget } of old) {
    for (const ref of [...fresh, ...stale]) await deleteObject(ref);
    await forget();
  }
  return deleted;

  async function markNeeded(node: TreeNode): Promise<void> {
    if (node.content !== null) needed.add(refKey(node.content));
    if (node.kind === 'folder') for (const child of (await readChildren(node)).values()) await markNeeded(child);
  }

  async function deleteObject(ref: ContentRef): Promise<void> {
    if (needed.has(refKey(ref))) return;
    await objects.delete(ref);
    deleted += ref[2];
  }

  /** Deletes entries before their folder, so that an interrupted sweep can find the rest. */
  async function deleteTree(content: ContentRef): Promise<void> {
    if (needed.has(refKey(content))) return;
    // A missing folder was deleted by an interrupted sweep.
    const children = await readChildren(folderFromRef(content)).catch(() => new Map<string, TreeNode>());
    for (const node of children.values()) {
      if (node.content === null) continue;
      await (node.kind === 'folder' ? deleteTree(node.content) : deleteObject(node.content));
    }
    await deleteObject(content);
  }
}
