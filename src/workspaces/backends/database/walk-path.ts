import { type Admit, assertAdmitted, type Deed } from '../../saferoot/admit.ts';
import { componentsOf } from '../../saferoot/components.ts';
import { SafeRootError } from '../../saferoot/saferoot-error.ts';
import type { ChildrenOf, FolderNode, Node } from './nodes.ts';

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
