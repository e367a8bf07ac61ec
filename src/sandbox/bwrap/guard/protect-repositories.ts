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
import { sandboxUnavailable } from '../../common/sandbox-errors.ts';
import { isWriteAllowed, type PinnedPath, pinChild, releasePins, statChild } from '../pinned-path.ts';
import { isRepository } from './find-protected-names.ts';
import { keepFolders, lockParent, lockPath, type MountCollector } from './mount-collector.ts';
import {
  explainUnreadableConfig,
  findWorkTreesAbove,
  type ProtectionContext,
  protectGitConfig,
  protectLinkedRepository,
} from './protect-git-config.ts';
import { createYield, scanFolder } from './scan-folder.ts';

const maxSubmodules = 500;

/** Of indexes, in all. One of 100,000 files has about 10 MiB. */
const maxIndexBytes = 256 * 1024 * 1024;

/** Guards the submodules of a repository. Returns those that are checked out, each by the names that lead there. */
type ProtectSubmodules = (workTree: string, gitFolder?: string) => Promise<string[][]>;

/** What git runs, or is configured by, in a repository that may be written; with what is put where it is missing. */
const gitConfigEntries: readonly { readonly name: string; readonly content?: string }[] = [
  { name: 'config', content: '' },
  { name: 'config.worktree', content: '' },
  // It says where the rest of the repository lies: here.
  { name: 'commondir', content: '.\n' },
  { name: 'hooks' },
  { name: 'info' },
  { name: 'modules' },
  { name: 'worktrees' },
];

const gitContentNames = ['HEAD', 'objects', 'refs', 'packed-refs', 'logs', 'index', 'shallow'];

/** Repositories of submodules, in that of the folder. */
const maxDepth = 6;

/**
 * The repository at the top of a folder, and those in it, with their submodules: read-only, the top one only in what git
 * follows where it may be written. The folders that lead to one stay in their places.
 */
export async function protectRepositories(top: PinnedPath, collector: MountCollector): Promise<void> {
  const { repositories, bare, closed, sockets, settings } = await scanFolder(top);
  const yieldToOthers = createYield();
  const context: ProtectionContext = { top, collector, source: createOrdersSource(), yieldToOthers };
  const protectSubmodules = createSubmoduleProtection(context);
  if (top.guard !== undefined) assertNoLink(top);
  // A folder that is no repository yet would become one of the server's making.
  const isWritable = top.guard?.git === 'write' && statChild(top, '.git/HEAD') !== undefined;
  const git = isWritable
    ? collector.keepInPlace(top, '.git')
    : top.guard === undefined
      ? collector.addReadOnly(top, '.git')
      : collector.reserveName(top, '.git');
  if (git !== undefined && isWritable) {
    for (const { name, content } of gitConfigEntries) collector.reserveName(git, name, content);
  }
  if (git !== undefined) hideGitCredentials(git, collector);
  const nested = [...repositories];
  if (await protectBareTop(context)) nested.push(...(await protectSubmodules(top.real, top.real)));
  if (git !== undefined) await protectGitConfig(context, top.real);
  if (statChild(top, '.git') !== undefined) nested.push(...(await protectSubmodules(top.real)));
  for (const above of findWorkTreesAbove(top)) {
    await protectGitConfig(context, above);
    nested.push(...(await protectSubmodules(above)));
  }
  const done = new Set<string>();
  for (const names of nested) {
    const path = names.join('/');
    if (done.has(path)) continue;
    done.add(path);
    const workTree = await protectNested(context, names);
    if (workTree !== undefined) nested.push(...(await protectSubmodules(workTree)));
  }
  for (const names of sockets) collector.coverSocket(top, names.join('/'));
  for (const names of settings) {
    await yieldToOthers();
    if (!isWriteAllowed(top, names)) hideCredentialsIn(top, names, collector);
  }
  for (const names of closed) lockPath(top, names, collector);
  for (const names of bare.filter((each) => !isWriteAllowed(top, [...each, '.git', 'HEAD']))) {
    const folder = lockPath(top, names, collector);
    if (folder !== undefined) hideGitCredentials(folder, collector);
  }
}

/** The folders on the way stay in their places only where a file has something to hide. */
function hideCredentialsIn(top: PinnedPath, names: readonly string[], collector: MountCollector): void {
  const last = names.at(-1) as string;
  const way: PinnedPath[] = [];
  try {
    for (const name of names.slice(0, -1)) {
      const next = pinChild(way.at(-1) ?? top, name);
      if (next === undefined) return;
      way.push(next);
    }
    if (!collector.hasCredentials(way.at(-1) ?? top, last)) return;
  } finally {
    releasePins(way);
  }
  const above = keepFolders(top, names.slice(0, -1), collector);
  if (above !== undefined) collector.hideCredentials(above, last);
}

/**
 * Git takes the top for a repository when it holds what one holds and `.git` is none. Where it is one, it is guarded like
 * `.git`. Where it could become one, an empty folder has the name without which there is none. Inside another repository
 * that name would be in the way of git's own word `HEAD`; there a new repository is noticed only. Returns whether it is one.
 */
async function protectBareTop(context: ProtectionContext): Promise<boolean> {
  const { top, collector } = context;
  if (top.guard === undefined || isWriteAllowed(top, ['.git', 'HEAD'])) return false;
  const has = (path: string) => statChild(top, path) !== undefined;
  if (isRepository([], has)) {
    if (top.guard.git === 'read') for (const name of gitContentNames) collector.addReadOnly(top, name);
    for (const { name, content } of gitConfigEntries) collector.reserveName(top, name, content);
    hideGitCredentials(top, collector);
    await protectGitConfig(context, top.real, top.real);
    return true;
  }
  const isOther = has('.git/HEAD') || statChild(top, '.git')?.isFile() === true;
  if (!isOther && !isInRepository(top.real)) collector.reserveName(top, 'HEAD');
  return false;
}

/** Whether one of the folders above is a repository. */
function isInRepository(folder: string): boolean {
  const above = dirname(folder);
  if (above === folder) return false;
  return existsSync(join(above, '.git')) || isInRepository(above);
}

/** Returns the work tree, where there is a repository. */
async function protectNested(context: ProtectionContext, names: readonly string[]): Promise<string | undefined> {
  const { top, collector } = context;
  const folder = keepFolders(top, names, collector);
  if (folder === undefined) return undefined;
  if (statChild(folder, '.git')?.isSymbolicLink()) {
    // Nothing can be mounted upon a link. It stays because nothing in its folder can be changed.
    lockParent(top, [...names, '.git'], collector);
    protectLinkedRepository(context, `${folder.real}/.git`);
  } else {
    const git = collector.addReadOnly(folder, '.git');
    if (git !== undefined) hideGitCredentials(git, collector);
    collector.addReadOnly(folder, '.gitmodules');
  }
  await protectGitConfig(context, folder.real);
  return folder.real;
}

/** Nothing can be mounted upon a link, and whoever may write the folder could replace it. */
function assertNoLink(folder: PinnedPath): void {
  if (!statChild(folder, '.git')?.isSymbolicLink()) return;
  throw sandboxUnavailable(
    'the ".git" of a folder that may be written is a link, and cannot be guarded',
    'Put the repository in its place, or a file that says "gitdir: " and where the repository lies.',
  );
}

function hideGitCredentials(git: PinnedPath, collector: MountCollector): void {
  if (!git.stats.isDirectory()) return;
  for (const name of ['config', 'config.worktree', 'credentials']) collector.hideCredentials(git, name, ['.git', name]);
  for (const name of ['modules', 'worktrees']) hideCredentialsBelow(git, name, 0, collector);
}

/** Repositories of submodules lie as deep as their names say. */
function hideCredentialsBelow(above: PinnedPath, name: string, depth: number, collector: MountCollector): void {
  const folder = depth > maxDepth ? undefined : pinChild(above, name);
  if (folder === undefined) return;
  try {
    if (!folder.stats.isDirectory()) return;
    for (const entry of readEntries(`/proc/self/fd/${folder.descriptor}`)) {
      collector.countVisit();
      if (entry.isFile() && /^config/.test(entry.name))
        collector.hideCredentials(folder, entry.name, ['.git', entry.name]);
      else if (entry.isDirectory() && !/^(?:objects|refs|logs|hooks|info)$/.test(entry.name)) {
        hideCredentialsBelow(folder, entry.name, depth + 1, collector);
      }
    }
  } finally {
    releasePins([folder]);
  }
}

/**
 * Git goes into each submodule by itself, and takes whatever repository it finds there. So where one is missing still,
 * its folder is read-only as a whole. It counts what the index says, which git follows, and what `.gitmodules` says.
 */
function createSubmoduleProtection(context: ProtectionContext): ProtectSubmodules {
  const { top, collector, source } = context;
  let bytesLeft = maxIndexBytes;

  function spendIndexBytes(bytes: number): void {
    bytesLeft -= bytes;
    if (bytesLeft < 0) throw new OrdersUnknown('has, with other repositories, an index of more than 256 MiB');
  }

  /** Those of the names that lead from the top of the folder on. */
  function findPathsBelowTop(workTree: string, paths: readonly string[]): string[][] {
    const found = [...new Set(paths)].flatMap((path) => {
      const names = path.split('/').filter((name) => name !== '' && name !== '.');
      const place = [workTree, ...names].join('/');
      const isSound = names.length > 0 && !names.includes('..') && !names.includes('.git');
      return isSound && place.startsWith(`${top.real}/`) ? [place.slice(top.real.length + 1).split('/')] : [];
    });
    if (found.length > maxSubmodules) throw new OrdersUnknown(`names more than ${maxSubmodules} submodules`);
    return found;
  }

  return (workTree, gitFolder) =>
    explainUnreadableConfig(context, workTree, async () => {
      const git = gitFolder ?? gitFolderOf(workTree, source.read);
      const hashBytes = readHashBytes(git, source);
      const submodules = await readSubmodulesOfIndex({ gitFolder: git, hashBytes, spend: spendIndexBytes });
      const named = source
        .settingsIn(join(workTree, '.gitmodules'))
        .flatMap(({ name, value }) => (name === 'submodule.path' ? [value] : []));
      return findPathsBelowTop(workTree, [...submodules, ...named]).filter((names) => {
        makeSubmoduleFolders(top, names);
        if (statChild(top, `${names.join('/')}/.git`) !== undefined && isReached(top, names)) return true;
        blockMissingSubmodule(context, names);
        return false;
      });
    });

  function isReached(from: PinnedPath, names: readonly string[]): boolean {
    return keepFolders(from, names, collector) !== undefined;
  }
}

/**
 * What is not checked out must not come to be. The first on the way that is no folder stays what it is, and where nothing
 * is, the name is taken.
 */
function blockMissingSubmodule({ top, collector }: ProtectionContext, names: readonly string[]): void {
  let here: PinnedPath = top;
  for (const [at, name] of names.entries()) {
    const found = statChild(here, name);
    const next = at < names.length - 1 && found?.isDirectory() ? collector.keepInPlace(here, name) : undefined;
    if (next === undefined) {
      const way = names.slice(0, at + 1);
      if (found === undefined) collector.reserveName(here, name);
      else if (found.isSymbolicLink()) lockParent(top, way, collector);
      else lockPath(top, way, collector);
      return;
    }
    here = next;
  }
}

/** As git itself makes them when it checks the repository out. */
function makeSubmoduleFolders(folder: PinnedPath, names: readonly string[]): void {
  const held: PinnedPath[] = [];
  try {
    let here = folder;
    for (const name of names) {
      if (statChild(here, name) === undefined) mkdirSync(`/proc/self/fd/${here.descriptor}/${name}`);
      const next = pinChild(here, name);
      if (next === undefined || !next.stats.isDirectory()) return;
      held.push(next);
      here = next;
    }
  } catch {
    // Who may not make it here may not inside either.
  } finally {
    releasePins(held);
  }
}

function readHashBytes(gitFolder: string, source: OrdersSource): number {
  const settings = gitFoldersOf(gitFolder, source.read).flatMap((each) => source.settingsIn(join(each, 'config')));
  const format = settings.findLast(({ name }) => name === 'extensions.objectformat')?.value;
  return format?.toLowerCase() === 'sha256' ? 32 : 20;
}
