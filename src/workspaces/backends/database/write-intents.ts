import { AmbitError } from '../../../errors.ts';
import type { Documents } from '../../../stores/documents.ts';
import type { Objects, Ref } from './objects.ts';
import type { Changes } from './tree-changes.ts';
import type { ChildrenOf, FolderNode, Node } from './tree-nodes.ts';

/** Intents dealt with in one go. */
const mostIntents = 1000;

const folderOf = (content: Ref): FolderNode => ({ kind: 'folder', modifiedMs: 0, entries: 0, bytes: 0, content });

const headOf = ([operation, first]: Ref): string => `${operation}-${first}`;

/**
 * What an operation is about to write, and what nobody refers to any more once it is done. It is noted before, so that
 * whatever becomes of the operation, all of it that is garbage is found later.
 */
export interface Intent {
  readonly fresh: readonly Ref[];
  readonly stale: readonly Ref[];
  /** Folders that go with all that is in them. */
  readonly trees: readonly Ref[];
}

export interface NotedIntent extends Intent {
  readonly startedMs: number;
  forget(): Promise<void>;
}

export interface Intents {
  note(operation: Operation, intent: Intent): Promise<void>;
  forget(operation: Operation): Promise<void>;
  any(): Promise<boolean>;
  all(): Promise<readonly NotedIntent[]>;
}

export interface Operation {
  readonly name: string;
  readonly startedMs: number;
}

/** One collection would be full too soon. */
const shards = 16;

export function intentsOf(documents: Documents, { collection }: Objects): Intents {
  const keyOf = ({ name, startedMs }: Operation) => `${String(startedMs).padStart(15, '0')}-${name}`;
  const shardAt = (index: number) => `${collection}-s${index.toString(16)}`;
  const shardOf = ({ name }: Operation) => shardAt(Number.parseInt(name.slice(0, 4), 16) % shards);

  async function listShard(shard: string): Promise<NotedIntent[]> {
    const found: NotedIntent[] = [];
    for (let after: string | null | undefined; after !== null; ) {
      const page = await documents.list(shard, { limit: 1000, ...(after === undefined ? {} : { after }) });
      for (const { key, text } of page.documents) {
        const forget = async () => void (await documents.delete(shard, key));
        found.push({ ...(JSON.parse(text) as Intent), startedMs: Number(key.slice(0, 15)), forget });
      }
      after = page.next;
    }
    return found;
  }

  return {
    async note(operation, intent) {
      const { outcome } = await documents.put(shardOf(operation), keyOf(operation), JSON.stringify(intent));
      if (outcome === 'written') return;
      throw new AmbitError('WORKSPACE_UNAVAILABLE', { what: 'More was written here than can be tidied up in time.' });
    },
    forget: async (operation) => void (await documents.delete(shardOf(operation), keyOf(operation))),

    async any() {
      for (let index = 0; index < shards; index++) {
        if ((await documents.list(shardAt(index), { limit: 1 })).documents.length > 0) return true;
      }
      return false;
    },

    async all() {
      const found: NotedIntent[] = [];
      for (let index = 0; index < shards; index++) found.push(...(await listShard(shardAt(index))));
      return found;
    },
  };
}

/**
 * Deletes what old operations left: what they wrote without coming to an end, and what others had written before them.
 * Nothing that is not in the tree now can ever come into it again, for whoever wrote it had to be done by then. What
 * younger operations took out of the tree stays for those who are reading it, and for a later sweep to find.
 */
export async function sweepObjects(
  { root }: Changes,
  intents: Intents,
  objects: Objects,
  childrenOf: ChildrenOf,
  graceMs: number,
): Promise<number> {
  if (!(await intents.any())) return 0;
  const before = Date.now() - graceMs;
  // The tree first: what is taken out of it from here on is in it still, as this sweep sees it.
  const needed = new Set<string>();
  await need(await root());
  const noted = await intents.all();
  const old = noted.filter(({ startedMs }) => startedMs < before).slice(0, mostIntents);
  for (const { stale, trees } of noted.filter((intent) => !old.includes(intent))) {
    for (const ref of stale) needed.add(headOf(ref));
    for (const ref of trees) await need(folderOf(ref));
  }
  let deleted = 0;
  // Whole trees first: the way into them may also be among what is dropped by itself.
  for (const { trees } of old) for (const ref of trees) await dropTree(ref);
  for (const { fresh, stale, forget } of old) {
    for (const ref of [...fresh, ...stale]) await drop(ref);
    await forget();
  }
  return deleted;

  async function need(node: Node): Promise<void> {
    if (node.content !== null) needed.add(headOf(node.content));
    if (node.kind === 'folder') for (const child of (await childrenOf(node)).values()) await need(child);
  }

  async function drop(ref: Ref): Promise<void> {
    if (needed.has(headOf(ref))) return;
    await objects.delete(ref);
    deleted += ref[2];
  }

  /** What is inside goes first: from where it begins the rest is found again, should this be cut short. */
  async function dropTree(content: Ref): Promise<void> {
    if (needed.has(headOf(content))) return;
    // One that is gone already was dropped by a sweep that was cut short just after it.
    const children = await childrenOf(folderOf(content)).catch(() => new Map<string, Node>());
    for (const node of children.values()) {
      if (node.content === null) continue;
      await (node.kind === 'folder' ? dropTree(node.content) : drop(node.content));
    }
    await drop(content);
  }
}
