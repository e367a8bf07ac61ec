import type { Changes } from './changes.ts';
import type { Intents } from './intents.ts';
import type { ChildrenOf, FolderNode, Node } from './nodes.ts';
import type { Objects, Ref } from './objects.ts';

/** Intents looked at in one go. */
const mostIntents = 1000;

/**
 * Deletes what old operations left: what they wrote without coming to an end, and what others had written before them.
 * Nothing that is not in the tree now can ever come into it again, for whoever wrote it had to be done by then.
 */
export async function sweepObjects(
  { root }: Changes,
  intents: Intents,
  objects: Objects,
  childrenOf: ChildrenOf,
  graceMs: number,
): Promise<number> {
  const noted = await intents.before(Date.now() - graceMs, mostIntents);
  if (noted.length === 0) return 0;
  const live = await liveIn(await root(), childrenOf);
  let deleted = 0;

  async function drop(ref: Ref): Promise<void> {
    if (live.has(headOf(ref))) return;
    await objects.delete(ref);
    deleted += ref[2];
  }

  /** What is inside goes first: from where it begins the rest is found again, should this be cut short. */
  async function dropTree(content: Ref): Promise<void> {
    if (live.has(headOf(content))) return;
    const folder: FolderNode = { kind: 'folder', modifiedMs: 0, entries: 0, bytes: 0, content };
    const children = await childrenOf(folder).catch(() => new Map<string, Node>());
    for (const node of children.values()) {
      if (node.content === null) continue;
      await (node.kind === 'folder' ? dropTree(node.content) : drop(node.content));
    }
    await drop(content);
  }

  for (const { fresh, stale, trees, forget } of noted) {
    for (const ref of [...fresh, ...stale]) await drop(ref);
    for (const ref of trees) await dropTree(ref);
    await forget();
  }
  return deleted;
}

const headOf = ([operation, first]: Ref): string => `${operation}-${first}`;

async function liveIn(root: FolderNode, childrenOf: ChildrenOf): Promise<ReadonlySet<string>> {
  const live = new Set<string>();
  async function add(node: Node): Promise<void> {
    if (node.content !== null) live.add(headOf(node.content));
    if (node.kind === 'folder') for (const child of (await childrenOf(node)).values()) await add(child);
  }
  await add(root);
  return live;
}
