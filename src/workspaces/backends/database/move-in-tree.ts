import { type Admit, asPath } from '../../saferoot/admit.ts';
import { withoutLastSlash } from '../../saferoot/components.ts';
import { asSafeRootError, SafeRootError } from '../../saferoot/saferoot-error.ts';
import type { Moved, MoveOptions } from '../backend.ts';
import type { Changing } from './changes.ts';
import type { ChildrenOf, Node } from './nodes.ts';
import { type PathEnd, surveyTree, walkPath } from './walk-path.ts';

/** Both ends in one change: nobody sees the thing at both names or at none. */
export async function moveInTree(
  tree: Changing,
  from: string,
  to: string,
  { overwrite = false }: MoveOptions,
  childrenOf: ChildrenOf,
  admit: Admit,
): Promise<Moved> {
  const source = await walkPath(tree.root, from, { deed: 'write' }, childrenOf, admit);
  const { node } = source;
  if (node === undefined) throw new SafeRootError('FILE_NOT_FOUND');
  assertNotTop(source);
  const target = await walkTo(node.kind === 'folder' && typeof to === 'string' ? withoutLastSlash(to) : to);
  assertNotTop(target, to);
  if (node.kind === 'folder') await surveyTree(node, [source.inside, target.inside], childrenOf, admit);
  const moved = { from: asPath(source.inside), to: asPath(target.inside), kind: node.kind };
  if (target.node !== undefined) {
    if (!overwrite) throw new SafeRootError('EXISTS', { path: to });
    if (moved.from === moved.to) return { ...moved, folders: 0 };
    assertReplaceable(node, target.node, to);
  }
  if (node.kind === 'folder' && moved.to.startsWith(`${moved.from}/`)) throw new SafeRootError('INTO_ITSELF');
  if (target.node !== undefined) tree.drop(target.node);
  await tree.take(source.inside);
  await tree.put(target.inside, node);
  return { ...moved, folders: tree.made() };

  /** A failure on this way is about the new name, not the old one. */
  async function walkTo(aim: string): Promise<PathEnd> {
    try {
      return await walkPath(tree.root, aim, { deed: 'write', make: 'parents' }, childrenOf, admit);
    } catch (error) {
      throw asSafeRootError(error, to);
    }
  }
}

function assertNotTop({ inside }: PathEnd, path?: string): void {
  if (inside.length === 0) throw new SafeRootError('PATH_VIOLATION', { what: 'is the folder itself', path });
}

/** A file by a file, an empty folder by a folder. */
function assertReplaceable(node: Node, old: Node, to: string): void {
  if (old.kind === 'file' && node.kind === 'folder') throw new SafeRootError('NOT_A_DIRECTORY', { path: to });
  if (old.kind === 'folder' && node.kind === 'file') throw new SafeRootError('IS_A_DIRECTORY', { path: to });
  if (old.kind === 'folder' && old.entries > 0) throw new SafeRootError('NOT_EMPTY', { path: to });
}
