import { AmbitError } from '../../../errors.ts';
import type { Documents } from '../../../stores/documents.ts';
import type { ContentRef, ObjectStore } from './objects.ts';
import type { TreeChanges } from './tree-changes.ts';
import { createEmptyFolder, type FolderNode, type ReadChildren, type TreeNode } from './tree-nodes.ts';

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

export interface IntentLog {
  record(operation: WriteOperation, intent: WriteIntent): Promise<void>;
  forget(operation: WriteOperation): Promise<void>;
  hasAny(): Promise<boolean>;
  list(): Promise<readonly StoredIntent[]>;
}

export interface WriteOperation {
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
