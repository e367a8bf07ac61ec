import { dirname } from 'node:path';
import { followLinks, linksAt, lookAtPlace } from '../../../lib/fs/follow-links.ts';
import { gitLinksIn, guardedLinksIn } from '../../../lib/fs/guarded-links.ts';
import { isGuardedName } from '../../../lib/fs/guarded-names.ts';
import {
  type GitOrder,
  gitFolderOf,
  gitFoldersOf,
  gitOrdersOf,
  type OrdersSource,
  OrdersUnknown,
} from '../../../lib/git/git-orders.ts';
import { escapeControls } from '../../../lib/text/escape-controls.ts';
import { unavailable } from '../../common/sandbox-errors.ts';
import { isOpened, lookWithin, type Pinned } from '../pinned-path.ts';
import type { Collector } from './mount-collector.ts';
import { isPlaceholder } from './placeholders.ts';

/** A folder that may be written, and what is gathered about it. */
export interface Ground {
  readonly top: Pinned;
  readonly collector: Collector;
  /** One for all repositories, so that its bounds hold for all of them together. */
  readonly source: OrdersSource;
  /** Lets others have their turn, where this has taken its time. */
  readonly giveWay: () => Promise<void>;
}

/** More links than this are not guarded one by one. */
const mostLinks = 500;

/**
 * What the configuration of a repository names in a folder that may be written: hooks, further configuration, programs;
 * and what links lead to among the things that git follows. It becomes read-only wherever it lies. What is missing and
 * would be followed once it is there has its name taken.
 */
export async function guardOrders(ground: Ground, workTree: string, gitFolder?: string): Promise<void> {
  const { top, collector, source, giveWay } = ground;
  await knowingOrders(ground, workTree, async () => {
    await giveWay();
    const git = gitFolder ?? gitFolderOf(workTree, source.read);
    for (const order of gitOrdersOf(workTree, git, source)) {
      guardOrder(top, order, collector);
      await giveWay();
    }
    for (const each of gitFoldersOf(git, source.read)) guardLinks(top, gitLinksIn(each), collector);
  });
}

/** Where a repository cannot be read within bounds, no sandbox is had, and the error says which one it is. */
export async function knowingOrders<T>({ top }: Ground, workTree: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof OrdersUnknown)) throw error;
    throw unavailable(
      `the configuration of git for ${nameOf(top, workTree)} ${error.what}, so what it names in the workspace cannot be guarded`,
      'Look at "git config --list --show-origin" there, and who wrote it. Shorten it, or remove the repository.',
      error,
    );
  }
}

function nameOf(top: Pinned, workTree: string): string {
  if (workTree === top.real) return 'the workspace';
  if (!workTree.startsWith(`${top.real}/`)) return 'a repository around the workspace';
  return `the folder "${escapeControls(workTree.slice(top.real.length + 1).slice(0, 200))}"`;
}

/** The work trees of repositories that lie around a folder. */
export function workTreesAbove(top: Pinned): string[] {
  const found: string[] = [];
  for (let above = dirname(top.real); above !== dirname(above); above = dirname(above)) {
    if (lookAtPlace(`${above}/.git`) !== undefined) found.push(above);
  }
  return found;
}

/** What a link leads to that git takes for the folder of a repository. */
export function guardLinkedRepository({ top, collector }: Ground, link: string): void {
  guardLinks(top, [link], collector);
}

/** What links lead to that have a guarded name at the top of a folder, or lie in what has one. */
export function guardLinksOf(top: Pinned, collector: Collector): void {
  guardLinks(
    top,
    guardedLinksIn(top.real, (names) => isOpened(top, names)),
    collector,
  );
}

function guardOrder(top: Pinned, { place, kind }: GitOrder, collector: Collector): void {
  if (kind === 'path' || kind === 'word') guardPlace(top, place, 'present', collector);
  else if (kind === 'settings') guardPlace(top, place, 'file', collector, ['.git', 'config']);
  else guardPlace(top, place, kind, collector);
  if (kind === 'folder') guardLinks(top, linksAt(place), collector);
}

function guardLinks(top: Pinned, links: readonly string[], collector: Collector): void {
  if (links.length > mostLinks) throw tooManyLinks();
  for (const link of links) guardLed(top, link, 'target', collector);
}

function guardLed(top: Pinned, path: string, what: 'present' | 'target', collector: Collector): void {
  const way = followLinks(path);
  for (const each of way?.links ?? []) watchLink(top, each, collector);
  if (way !== undefined) guardPlace(top, way.place, what, collector, path.split('/').slice(-2));
}

/** Nothing can be mounted upon a link; that it is replaced is at least noticed. */
function watchLink(top: Pinned, link: string, collector: Collector): void {
  if (link.startsWith(`${top.real}/`)) collector.watch(top, link.slice(top.real.length + 1));
}

/** `present`: a word of a command, of which only a file that is there counts. `target`: what a link leads to. */
type What = 'folder' | 'file' | 'present' | 'target';

/** Settings are shown without credentials by the names that others know them by. */
function guardPlace(top: Pinned, place: string, what: What, collector: Collector, known?: readonly string[]): void {
  if (!place.startsWith(`${top.real}/`)) return;
  const names = place.slice(top.real.length + 1).split('/');
  if (isGuardedElsewhere(top, names, what)) return;
  let here: Pinned | undefined = top;
  for (const [at, name] of names.entries()) {
    const isLast = at === names.length - 1;
    const found = lookWithin(here, name);
    if (found === undefined || isPlaceholder(here, name)) {
      if (what === 'present' || top.guard === undefined) return;
      collector.occupy(here, name, isLast && what !== 'folder' ? '' : undefined);
      return;
    }
    if (found.isSymbolicLink()) {
      // What was followed to its end a moment ago has no link on the way, unless somebody made one.
      if (what !== 'present') throw leadsThroughLink();
      guardLed(top, place, what, collector);
      return;
    }
    if (isLast && (what !== 'present' || found.isFile())) collector.readOnly(here, name, known);
    here = isLast ? undefined : collector.keep(here, name);
    if (here === undefined) return;
  }
}

/** A repository or folder that is read-only as a whole, or what the operator has opened by its name. */
function isGuardedElsewhere(top: Pinned, names: readonly string[], what: What): boolean {
  const [first = ''] = names;
  if (names.includes('.git')) return first !== '.git' || top.guard?.git !== 'write';
  return isGuardedName(first) && (what === 'target' || isOpened(top, [first]));
}

function leadsThroughLink() {
  return unavailable(
    'the configuration of a repository names something in the workspace that is a link or lies behind one, and cannot be guarded',
    'Look at "git config --list --show-origin", and name the place itself there.',
  );
}

function tooManyLinks() {
  return unavailable(
    `more than ${mostLinks} links lie among what is guarded in the workspace, and what they lead to cannot all be guarded`,
    'Look who made them, and remove what is not needed.',
  );
}
