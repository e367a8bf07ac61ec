import { type Admit, asPath, assertAdmitted, type Deed } from '../../saferoot/check-access.ts';
import { componentsOf, withoutLastSlash } from '../../saferoot/path-components.ts';
import { asSafeRootError, SafeRootError } from '../../saferoot/saferoot-error.ts';
import type { Listed, ListedEntry, ListOptions, Moved, MoveOptions } from '../backend.ts';
import type { Changing } from './tree-changes.ts';
import type { ChildrenOf, FolderNode, Node } from './tree-nodes.ts';

export interface PathWalk {
  readonly deed: Deed;
  /** Folders that are missing on the way are taken to be there; `all` the last one too. */
  readonly make?: 'parents' | 'all';
}

export interface PathEnd {
  readonly inside: readonly string[];
  /** What is there, or undefined when nothing bears the last name. */
  readonly node: Node | undefined;
}

const maxDepth = 127;
const maxSteps = 1024;

/** The same way a SafeRoot walks a folder, where there are no links. */
export async function walkPath(
  root: FolderNode,
  path: string,
  { deed, make }: PathWalk,
  childrenOf: ChildrenOf,
  admit: Admit,
): Promise<PathEnd> {
  const ahead = componentsOf(path).reverse();
  const names: string[] = [];
  /** Undefined from where on nothing is there. */
  const nodes: (Node | undefined)[] = [root];
  let steps = 0;
  let name = '';

  async function advance(): Promise<void> {
    const here = nodes.at(-1) as FolderNode | undefined;
    const next = here && (await childrenOf(here)).get(name);
    if (next === undefined) {
      const last = ahead.every((component) => component === '' || component === '.');
      if (make === undefined ? !last || ahead.length > 0 : make === 'parents' && last && ahead.length > 0) {
        throw new SafeRootError('FILE_NOT_FOUND');
      }
    }
    names.push(name);
    nodes.push(next);
    if (names.length > maxDepth) throw new SafeRootError('TOO_DEEP');
    // On the way through folders that are to be made, each is asked for.
    if (next === undefined) assertAdmitted(admit, deed, names, undefined);
  }

  try {
    while (ahead.length > 0) {
      name = ahead.pop() as string;
      if (++steps > maxSteps) throw new SafeRootError('TOO_DEEP');
      if (nodes.at(-1)?.kind === 'file') throw new SafeRootError('NOT_A_DIRECTORY');
      if (name === '' || name === '.') continue;
      if (name !== '..') await advance();
      else if (names.length === 0) throw new SafeRootError('PATH_VIOLATION');
      else {
        assertAdmitted(admit, 'read', names, 'folder');
        names.pop();
        nodes.pop();
      }
    }
  } catch (error) {
    const told = error instanceof SafeRootError && ['NOT_ADMITTED', 'PATH_VIOLATION'].includes(error.code);
    // As in a folder: whether something that is closed exists is not told.
    if (!told) assertAdmitted(admit, deed, plainly([...names, name, ...ahead.toReversed()]), undefined);
    throw error;
  }
  const node = nodes.at(-1);
  assertAdmitted(admit, deed, names, node?.kind);
  return { inside: names, node };
}

function plainly(components: readonly string[]): string[] {
  const way: string[] = [];
  for (const name of components) {
    if (name === '..') way.pop();
    else if (name !== '' && name !== '.') way.push(name);
  }
  return way;
}

/** Everything in a folder must be admitted by each of the ways to it: the one there is, and the one there will be. */
export async function surveyTree(
  folder: FolderNode,
  ways: readonly (readonly string[])[],
  childrenOf: ChildrenOf,
  admit: Admit,
): Promise<void> {
  for (const [name, node] of await childrenOf(folder)) {
    const there = ways.map((way) => [...way, name]);
    for (const way of there) assertAdmitted(admit, 'write', way, node.kind);
    if (node.kind === 'folder') await surveyTree(node, there, childrenOf, admit);
  }
}

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
