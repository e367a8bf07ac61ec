import { type Admit, asPath } from '../../saferoot/admit.ts';
import type { Listed, ListedEntry, ListOptions } from '../backend.ts';
import type { ChildrenOf, FolderNode } from './nodes.ts';

export async function listTree(
  folder: FolderNode,
  inside: readonly string[],
  { limit = 10_000, facts = false }: ListOptions,
  childrenOf: ChildrenOf,
  admit: Admit,
): Promise<Listed> {
  const children = [...(await childrenOf(folder))].sort(([one], [other]) => (one < other ? -1 : 1));
  const entries = children.slice(0, limit).map(([name, node]): ListedEntry => {
    const entry = { name, kind: node.kind };
    if (admit('read', [...inside, name], node.kind) !== undefined) return { ...entry, hidden: true };
    if (!facts) return entry;
    return { ...entry, bytes: node.kind === 'file' ? node.bytes : 0, modifiedMs: node.modifiedMs };
  });
  return { path: asPath(inside), entries, more: children.length > limit };
}
