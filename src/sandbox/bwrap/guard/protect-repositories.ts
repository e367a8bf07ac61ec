import { existsSync, mkdirSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { readEntries } from '../../../lib/fs/follow-links.ts';
import { readSubmodulesOfIndex } from '../../../lib/git/git-index.ts';
import {
  createOrdersSource,
  gitFolderOf,
  gitFoldersOf,
  type OrdersSource,
  OrdersUnknown,
} from '../../../lib/git/git-orders.ts';
import { unavailable } from '../../common/sandbox-errors.ts';
import { isOpened, lookWithin, type Pinned, pinWithin, release } from '../pinned-path.ts';
import { isRepository } from './find-protected-names.ts';
import { type Collector, keepAll, lockAround, lockWhole } from './mount-collector.ts';
import {
  type Ground,
  guardLinkedRepository,
  guardOrders,
  knowingOrders,
  workTreesAbove,
} from './protect-git-config.ts';
import { createGiveWay, surveyFolder } from './scan-folder.ts';

const mostSubmodules = 500;

/** Of indexes, in all. One of 100,000 files has about 10 MiB. */
const mostIndexBytes = 256 * 1024 * 1024;

/** Guards the submodules of a repository. Returns those that are checked out, each by the names that lead there. */
type GuardSubmodules = (workTree: string, gitFolder?: string) => Promise<string[][]>;

/** What git runs, or is configured by, in a repository that may be written; with what is put where it is missing. */
const rulesOfGit: readonly { readonly name: string; readonly content?: string }[] = [
  { name: 'config', content: '' },
  { name: 'config.worktree', content: '' },
  // It says where the rest of the repository lies: here.
  { name: 'commondir', content: '.\n' },
  { name: 'hooks' },
  { name: 'info' },
  { name: 'modules' },
  { name: 'worktrees' },
];

const contentOfGit = ['HEAD', 'objects', 'refs', 'packed-refs', 'logs', 'index', 'shallow'];

/** Repositories of submodules, in that of the folder. */
const deepest = 6;

/**
 * The repository at the top of a folder, and those in it, with their submodules: read-only, the top one only in what git
 * follows where it may be written. The folders that lead to one stay in their places.
 */
export async function guardRepositories(top: Pinned, collector: Collector): Promise<void> {
  const { repositories, bare, closed, sockets, settings } = await surveyFolder(top);
  const giveWay = createGiveWay();
  const ground: Ground = { top, collector, source: createOrdersSource(), giveWay };
  const guardSubmodules = createSubmoduleGuard(ground);
  if (top.guard !== undefined) assertNoLink(top);
  // A folder that is no repository yet would become one of the server's making.
  const isWritable = top.guard?.git === 'write' && lookWithin(top, '.git/HEAD') !== undefined;
  const git = isWritable
    ? collector.keep(top, '.git')
    : top.guard === undefined
      ? collector.readOnly(top, '.git')
      : collector.occupy(top, '.git');
  if (git !== undefined && isWritable) {
    for (const { name, content } of rulesOfGit) collector.occupy(git, name, content);
  }
  if (git !== undefined) hideCredentials(git, collector);
  const nested = [...repositories];
  if (await guardTopItself(ground)) nested.push(...(await guardSubmodules(top.real, top.real)));
  if (git !== undefined) await guardOrders(ground, top.real);
  if (lookWithin(top, '.git') !== undefined) nested.push(...(await guardSubmodules(top.real)));
  for (const above of workTreesAbove(top)) {
    await guardOrders(ground, above);
    nested.push(...(await guardSubmodules(above)));
  }
  const done = new Set<string>();
  for (const names of nested) {
    const path = names.join('/');
    if (done.has(path)) continue;
    done.add(path);
    const workTree = await guardNested(ground, names);
    if (workTree !== undefined) nested.push(...(await guardSubmodules(workTree)));
  }
  for (const names of sockets) collector.cover(top, names.join('/'));
  for (const names of settings) {
    await giveWay();
    if (!isOpened(top, names)) hideIfNeeded(top, names, collector);
  }
  for (const names of closed) lockWhole(top, names, collector);
  for (const names of bare.filter((each) => !isOpened(top, [...each, '.git', 'HEAD']))) {
    const folder = lockWhole(top, names, collector);
    if (folder !== undefined) hideCredentials(folder, collector);
  }
}

/** The folders on the way stay in their places only where a file has something to hide. */
function hideIfNeeded(top: Pinned, names: readonly string[], collector: Collector): void {
  const last = names.at(-1) as string;
  const way: Pinned[] = [];
  try {
    for (const name of names.slice(0, -1)) {
      const next = pinWithin(way.at(-1) ?? top, name);
      if (next === undefined) return;
      way.push(next);
    }
    if (!collector.hasCredentials(way.at(-1) ?? top, last)) return;
  } finally {
    release(way);
  }
  const above = keepAll(top, names.slice(0, -1), collector);
  if (above !== undefined) collector.hideCredentials(above, last);
}

/**
 * Git takes the top for a repository when it holds what one holds and `.git` is none. Where it is one, it is guarded like
 * `.git`. Where it could become one, an empty folder has the name without which there is none. Inside another repository
 * that name would be in the way of git's own word `HEAD`; there a new repository is noticed only. Returns whether it is one.
 */
async function guardTopItself(ground: Ground): Promise<boolean> {
  const { top, collector } = ground;
  if (top.guard === undefined || isOpened(top, ['.git', 'HEAD'])) return false;
  const has = (path: string) => lookWithin(top, path) !== undefined;
  if (isRepository([], has)) {
    if (top.guard.git === 'read') for (const name of contentOfGit) collector.readOnly(top, name);
    for (const { name, content } of rulesOfGit) collector.occupy(top, name, content);
    hideCredentials(top, collector);
    await guardOrders(ground, top.real, top.real);
    return true;
  }
  const isOther = has('.git/HEAD') || lookWithin(top, '.git')?.isFile() === true;
  if (!isOther && !isInRepository(top.real)) collector.occupy(top, 'HEAD');
  return false;
}

/** Whether one of the folders above is a repository. */
function isInRepository(folder: string): boolean {
  const above = dirname(folder);
  if (above === folder) return false;
  return existsSync(join(above, '.git')) || isInRepository(above);
}

/** Returns the work tree, where there is a repository. */
async function guardNested(ground: Ground, names: readonly string[]): Promise<string | undefined> {
  const { top, collector } = ground;
  const folder = keepAll(top, names, collector);
  if (folder === undefined) return undefined;
  if (lookWithin(folder, '.git')?.isSymbolicLink()) {
    // Nothing can be mounted upon a link. It stays because nothing in its folder can be changed.
    lockAround(top, [...names, '.git'], collector);
    guardLinkedRepository(ground, `${folder.real}/.git`);
  } else {
    const git = collector.readOnly(folder, '.git');
    if (git !== undefined) hideCredentials(git, collector);
    collector.readOnly(folder, '.gitmodules');
  }
  await guardOrders(ground, folder.real);
  return folder.real;
}

/** Nothing can be mounted upon a link, and whoever may write the folder could replace it. */
function assertNoLink(folder: Pinned): void {
  if (!lookWithin(folder, '.git')?.isSymbolicLink()) return;
  throw unavailable(
    'the ".git" of a folder that may be written is a link, and cannot be guarded',
    'Put the repository in its place, or a file that says "gitdir: " and where the repository lies.',
  );
}

function hideCredentials(git: Pinned, collector: Collector): void {
  if (!git.stats.isDirectory()) return;
  for (const name of ['config', 'config.worktree', 'credentials']) collector.hideCredentials(git, name, ['.git', name]);
  for (const name of ['modules', 'worktrees']) inEach(git, name, 0, collector);
}

/** Repositories of submodules lie as deep as their names say. */
function inEach(above: Pinned, name: string, depth: number, collector: Collector): void {
  const folder = depth > deepest ? undefined : pinWithin(above, name);
  if (folder === undefined) return;
  try {
    if (!folder.stats.isDirectory()) return;
    for (const entry of readEntries(`/proc/self/fd/${folder.descriptor}`)) {
      collector.countLook();
      if (entry.isFile() && /^config/.test(entry.name))
        collector.hideCredentials(folder, entry.name, ['.git', entry.name]);
      else if (entry.isDirectory() && !/^(?:objects|refs|logs|hooks|info)$/.test(entry.name)) {
        inEach(folder, entry.name, depth + 1, collector);
      }
    }
  } finally {
    release([folder]);
  }
}

/**
 * Git goes into each submodule by itself, and takes whatever repository it finds there. So where one is missing still,
 * its folder is read-only as a whole. It counts what the index says, which git follows, and what `.gitmodules` says.
 */
function createSubmoduleGuard(ground: Ground): GuardSubmodules {
  const { top, collector, source } = ground;
  let bytesLeft = mostIndexBytes;

  function spend(bytes: number): void {
    bytesLeft -= bytes;
    if (bytesLeft < 0) throw new OrdersUnknown('has, with other repositories, an index of more than 256 MiB');
  }

  /** Those of the names that lead from the top of the folder on. */
  function within(workTree: string, paths: readonly string[]): string[][] {
    const found = [...new Set(paths)].flatMap((path) => {
      const names = path.split('/').filter((name) => name !== '' && name !== '.');
      const place = [workTree, ...names].join('/');
      const isSound = names.length > 0 && !names.includes('..') && !names.includes('.git');
      return isSound && place.startsWith(`${top.real}/`) ? [place.slice(top.real.length + 1).split('/')] : [];
    });
    if (found.length > mostSubmodules) throw new OrdersUnknown(`names more than ${mostSubmodules} submodules`);
    return found;
  }

  return (workTree, gitFolder) =>
    knowingOrders(ground, workTree, async () => {
      const git = gitFolder ?? gitFolderOf(workTree, source.read);
      const hashBytes = hashBytesOf(git, source);
      const submodules = await readSubmodulesOfIndex({ gitFolder: git, hashBytes, spend });
      const named = source
        .settingsIn(join(workTree, '.gitmodules'))
        .flatMap(({ name, value }) => (name === 'submodule.path' ? [value] : []));
      return within(workTree, [...submodules, ...named]).filter((names) => {
        makeFolders(top, names);
        if (lookWithin(top, `${names.join('/')}/.git`) !== undefined && isReached(top, names)) return true;
        guardMissing(ground, names);
        return false;
      });
    });

  function isReached(from: Pinned, names: readonly string[]): boolean {
    return keepAll(from, names, collector) !== undefined;
  }
}

/**
 * What is not checked out must not come to be. The first on the way that is no folder stays what it is, and where nothing
 * is, the name is taken.
 */
function guardMissing({ top, collector }: Ground, names: readonly string[]): void {
  let here: Pinned = top;
  for (const [at, name] of names.entries()) {
    const found = lookWithin(here, name);
    const next = at < names.length - 1 && found?.isDirectory() ? collector.keep(here, name) : undefined;
    if (next === undefined) {
      const way = names.slice(0, at + 1);
      if (found === undefined) collector.occupy(here, name);
      else if (found.isSymbolicLink()) lockAround(top, way, collector);
      else lockWhole(top, way, collector);
      return;
    }
    here = next;
  }
}

/** As git itself makes them when it checks the repository out. */
function makeFolders(folder: Pinned, names: readonly string[]): void {
  const held: Pinned[] = [];
  try {
    let here = folder;
    for (const name of names) {
      if (lookWithin(here, name) === undefined) mkdirSync(`/proc/self/fd/${here.descriptor}/${name}`);
      const next = pinWithin(here, name);
      if (next === undefined || !next.stats.isDirectory()) return;
      held.push(next);
      here = next;
    }
  } catch {
    // Who may not make it here may not inside either.
  } finally {
    release(held);
  }
}

function hashBytesOf(gitFolder: string, source: OrdersSource): number {
  const settings = gitFoldersOf(gitFolder, source.read).flatMap((each) => source.settingsIn(join(each, 'config')));
  const format = settings.findLast(({ name }) => name === 'extensions.objectformat')?.value;
  return format?.toLowerCase() === 'sha256' ? 32 : 20;
}
