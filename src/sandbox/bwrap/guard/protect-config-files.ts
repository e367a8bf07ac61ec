import { existsSync, mkdirSync } from 'node:fs';
import { opendir } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { isProtectedName, iterateFolder, protectedPaths } from '../../../lib/fs/protected-paths.ts';
import {
  createGitConfigReader,
  findGitFolder,
  GitConfigError,
  type GitConfigReader,
  listGitFolders,
} from '../../../lib/git/configured-paths.ts';
import { readSubmodulesOfIndex } from '../../../lib/git/git-index.ts';
import { sandboxUnavailable } from '../../common/sandbox-errors.ts';
import { isWriteAllowed, type PinnedPath, pinChild, releasePins, statChild } from '../pinned-path.ts';
import { findProtectedNames, isRepository, type ProtectedName } from './find-protected-names.ts';
import {
  type CollectedMounts,
  type Collector,
  createCollector,
  keepFolders,
  lockParent,
  lockPath,
} from './mount-collector.ts';
import {
  explainUnreadable,
  findWorkTreesAbove,
  type Protection,
  protectGitConfig,
  protectLinks,
  protectProtectedLinks,
} from './protect-git-config.ts';
import { createYield, scanFolder } from './scan-folder.ts';
import { type MountMark, markMountPoint, type WatchedFolder } from './watch-mount-points.ts';

/** Writes a file that is mounted over another one. */
export type WriteCopy = (content: Buffer, inside: string) => PinnedPath;

interface ProtectedConfig extends CollectedMounts {
  readonly folders: readonly WatchedFolder[];
}

/**
 * Protects the files in a writable folder that a person's own tools run or follow. Protected names count where they
 * exist at the top of the folder. Repositories also count further in, and `.git` at the top even where it is missing.
 */
export async function protectConfigFiles(folder: PinnedPath, writeCopy: WriteCopy): Promise<ProtectedConfig> {
  const collector = createCollector(folder, writeCopy);
  try {
    for (const name of await listProtectedNames(folder)) {
      if (!isWriteAllowed(folder, [name])) collector.addReadOnly(folder, name);
    }
    for (const path of protectedPaths) {
      const [above = '', name = ''] = path.split('/');
      if (isWriteAllowed(folder, [above, name]) || statChild(folder, path) === undefined) continue;
      const held = collector.keepInPlace(folder, above);
      if (held !== undefined) collector.addReadOnly(held, name);
    }
    protectProtectedLinks(folder, collector);
    await protectRepositories(folder, collector);
    const collected = collector.collect();
    if (folder.guard === undefined) return { ...collected, folders: [] };
    const there = await findProtectedNames(folder.source);
    return {
      ...collected,
      mountPoints: [...collected.mountPoints, ...markLinks(folder, there)],
      folders: [
        {
          path: folder.source,
          present: new Set(there.map(({ name }) => name)),
          isWriteAllowed: (names) => isWriteAllowed(folder, names),
        },
      ],
    };
  } catch (error) {
    collector.release();
    throw error;
  }
}

async function listProtectedNames(folder: PinnedPath): Promise<string[]> {
  const names: string[] = [];
  for await (const { name } of await opendir(`/proc/self/fd/${folder.descriptor}`, { bufferSize: 1000 })) {
    if (isProtectedName(name)) names.push(name);
  }
  return names;
}

/** Nothing can be mounted on a link, so a replaced link is detected instead. */
function markLinks(folder: PinnedPath, there: readonly ProtectedName[]): MountMark[] {
  return there.flatMap(({ name, ruleNames }) => {
    const stats = statChild(folder, name);
    if (!stats?.isSymbolicLink() || isWriteAllowed(folder, ruleNames)) return [];
    return [markMountPoint(`${folder.source}/${name}`, stats)];
  });
}

const maxSubmodules = 500;

/** The limit for all indexes together. The index of 100,000 files has about 10 MiB. */
const maxIndexBytes = 256 * 1024 * 1024;

/** Protects the submodules of a repository. Returns those that are checked out, as the names of their paths. */
type ProtectSubmodules = (workTree: string, gitFolder?: string) => Promise<string[][]>;

/** The entries of a writable repository that git runs or reads as configuration, with the content of placeholders. */
const gitConfigEntries: readonly { readonly name: string; readonly content?: string }[] = [
  { name: 'config', content: '' },
  { name: 'config.worktree', content: '' },
  // The path of the rest of the repository: this folder.
  { name: 'commondir', content: '.\n' },
  { name: 'hooks' },
  { name: 'info' },
  { name: 'modules' },
  { name: 'worktrees' },
];

const gitContentNames = ['HEAD', 'objects', 'refs', 'packed-refs', 'logs', 'index', 'shallow'];

/** The depth of submodule repositories below `.git/modules`. */
const maxDepth = 6;

/**
 * Protects the repository at the top of a folder and those in it, with their submodules. They become read-only; in a
 * writable repository at the top, only what git follows does. The folders that lead to them stay in place.
 */
async function protectRepositories(top: PinnedPath, collector: Collector): Promise<void> {
  const { repositories, bare, closed, sockets, settings } = await scanFolder(top);
  const yieldToOthers = createYield();
  const context: Protection = { top, collector, source: createGitConfigReader(), yieldToOthers };
  const protectSubmodules = createSubmoduleProtection(context);
  if (top.guard !== undefined) assertNoLink(top);
  // Otherwise a server could turn a plain folder into a repository.
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
  if (await protectBareTop(context)) nested.push(...(await protectSubmodules(top.source, top.source)));
  if (git !== undefined) await protectGitConfig(context, top.source);
  if (statChild(top, '.git') !== undefined) nested.push(...(await protectSubmodules(top.source)));
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

/** Keeps the folders on the path in place only where the file has credentials to hide. */
function hideCredentialsIn(top: PinnedPath, names: readonly string[], collector: Collector): void {
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
 * Protects a top folder that git takes for a bare repository: it holds the entries of one, and `.git` is none. If it
 * could become one, an empty folder reserves the name `HEAD`. Inside another repository that name would shadow git's
 * own `HEAD`; there a new repository is only detected. Returns whether the top is a bare repository.
 */
async function protectBareTop(context: Protection): Promise<boolean> {
  const { top, collector } = context;
  if (top.guard === undefined || isWriteAllowed(top, ['.git', 'HEAD'])) return false;
  const has = (path: string) => statChild(top, path) !== undefined;
  if (isRepository([], has)) {
    if (top.guard.git === 'read') for (const name of gitContentNames) collector.addReadOnly(top, name);
    for (const { name, content } of gitConfigEntries) collector.reserveName(top, name, content);
    hideGitCredentials(top, collector);
    await protectGitConfig(context, top.source, top.source);
    return true;
  }
  const isOther = has('.git/HEAD') || statChild(top, '.git')?.isFile() === true;
  if (!isOther && !isInRepository(top.source)) collector.reserveName(top, 'HEAD');
  return false;
}

/** Whether a folder above is a repository. */
function isInRepository(folder: string): boolean {
  const above = dirname(folder);
  if (above === folder) return false;
  return existsSync(join(above, '.git')) || isInRepository(above);
}

/** Returns the work tree if there is a repository. */
async function protectNested(context: Protection, names: readonly string[]): Promise<string | undefined> {
  const { top, collector } = context;
  const folder = keepFolders(top, names, collector);
  if (folder === undefined) return undefined;
  if (statChild(folder, '.git')?.isSymbolicLink()) {
    // Nothing can be mounted on a link. It stays because its folder is read-only.
    lockParent(top, [...names, '.git'], collector);
    protectLinks(top, [`${folder.source}/.git`], collector);
  } else {
    const git = collector.addReadOnly(folder, '.git');
    if (git !== undefined) hideGitCredentials(git, collector);
    collector.addReadOnly(folder, '.gitmodules');
  }
  await protectGitConfig(context, folder.source);
  return folder.source;
}

/** Nothing can be mounted on a link, and anyone who may write the folder could replace it. */
function assertNoLink(folder: PinnedPath): void {
  if (!statChild(folder, '.git')?.isSymbolicLink()) return;
  throw sandboxUnavailable(
    'the ".git" of a writable folder is a symbolic link and cannot be protected',
    'Replace the link with the repository, or with a file that contains "gitdir: " and the path of the repository.',
  );
}

function hideGitCredentials(git: PinnedPath, collector: Collector): void {
  if (!git.stats.isDirectory()) return;
  for (const name of ['config', 'config.worktree', 'credentials']) collector.hideCredentials(git, name, ['.git', name]);
  for (const name of ['modules', 'worktrees']) hideCredentialsBelow(git, name, 0, collector);
}

/** Hides credentials in submodule repositories, which lie as deep as their names say. */
function hideCredentialsBelow(above: PinnedPath, name: string, depth: number, collector: Collector): void {
  const folder = depth > maxDepth ? undefined : pinChild(above, name);
  if (folder === undefined) return;
  try {
    if (!folder.stats.isDirectory()) return;
    for (const entry of iterateFolder(`/proc/self/fd/${folder.descriptor}`)) {
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
 * Creates the protection of submodules. Git enters each submodule and uses any repository it finds there. So the folder
 * of a missing one is read-only as a whole. Submodules come from the index and from `.gitmodules`.
 */
function createSubmoduleProtection(context: Protection): ProtectSubmodules {
  const { top, collector, source } = context;
  let bytesLeft = maxIndexBytes;

  function spendIndexBytes(bytes: number): void {
    bytesLeft -= bytes;
    if (bytesLeft < 0)
      throw new GitConfigError('has an index that is larger than 256 MiB together with those of other repositories');
  }

  /** Returns the paths that lie below the top of the folder. */
  function findPathsBelowTop(workTree: string, paths: readonly string[]): string[][] {
    const found = [...new Set(paths)].flatMap((path) => {
      const names = path.split('/').filter((name) => name !== '' && name !== '.');
      const full = [workTree, ...names].join('/');
      const isSound = names.length > 0 && !names.includes('..') && !names.includes('.git');
      return isSound && full.startsWith(`${top.source}/`) ? [full.slice(top.source.length + 1).split('/')] : [];
    });
    if (found.length > maxSubmodules) throw new GitConfigError(`names more than ${maxSubmodules} submodules`);
    return found;
  }

  return (workTree, gitFolder) =>
    explainUnreadable(context, workTree, async () => {
      const git = gitFolder ?? findGitFolder(workTree, source.read);
      const hashBytes = readHashBytes(git, source);
      const submodules = await readSubmodulesOfIndex({ gitFolder: git, hashBytes, spend: spendIndexBytes });
      const named = source
        .settingsIn(join(workTree, '.gitmodules'))
        .flatMap(({ name, value }) => (name === 'submodule.path' ? [value] : []));
      return findPathsBelowTop(workTree, [...submodules, ...named]).filter((names) => {
        makeSubmoduleFolders(top, names);
        const isCheckedOut = statChild(top, `${names.join('/')}/.git`) !== undefined;
        if (isCheckedOut && keepFolders(top, names, collector) !== undefined) return true;
        blockMissingSubmodule(context, names);
        return false;
      });
    });
}

/**
 * Keeps a submodule that is not checked out from being created. The first entry on the path that is no folder becomes
 * read-only; a missing one is reserved.
 */
function blockMissingSubmodule({ top, collector }: Protection, names: readonly string[]): void {
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

/** Makes the folders of a submodule, as git does when it checks the repository out. */
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
    // If Ambit may not make the folder, nobody inside may.
  } finally {
    releasePins(held);
  }
}

function readHashBytes(gitFolder: string, source: GitConfigReader): number {
  const settings = listGitFolders(gitFolder, source.read).flatMap((each) => source.settingsIn(join(each, 'config')));
  const format = settings.findLast(({ name }) => name === 'extensions.objectformat')?.value;
  return format?.toLowerCase() === 'sha256' ? 32 : 20;
}
