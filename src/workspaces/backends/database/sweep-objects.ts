import type { Changes } from './changes.ts';
import type { Intents } from './intents.ts';
import type { ChildrenOf, FolderNode, Node } from './nodes.ts';
import type { Objects, Ref } from './objects.ts';

/** Intents dealt with in one go. */
const mostIntents = 1000;

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

const folderOf = (content: Ref): FolderNode => ({ kind: 'folder', modifiedMs: 0, entries: 0, bytes: 0, content });
const headOf = ([operation, first]: Ref): string => `${operation}-${first}`;
