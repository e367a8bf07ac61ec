import { existsSync, mkdirSync, readdirSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { parseGitConfig } from '../../git-config.ts';
import type { Collector } from './collect-guarded.ts';
import { guardOrders, guardOrdersAbove } from './guard-orders.ts';
import { isRepository } from './guarded-entries.ts';
import { isOpened } from './is-opened.ts';
import { lookWithin, type Pinned, pinWithin, readPinned, release } from './pinned.ts';
import { unavailable } from './remedy.ts';
import { surveyFolder } from './survey-folder.ts';

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
const mostSubmodules = 500;
const largestSettings = 1024 * 1024;

/**
 * The repository at the top of a folder, and those in it, with their submodules: read-only, the top one only in what git
 * follows where it may be written. The folders that lead to one stay in their places.
 */
export async function guardRepositories(top: Pinned, collector: Collector): Promise<void> {
  const { repositories, bare, closed, sockets, settings } = await surveyFolder(top);
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
  guardTopItself(top, collector);
  if (git !== undefined) guardOrders(top, top.real, collector);
  guardOrdersAbove(top, collector);
  guardSubmodules(top, top, collector);
  for (const names of repositories) {
    const folder = keepAll(top, names, collector);
    if (folder !== undefined) guardNested(top, folder, collector);
  }
  for (const names of sockets) collector.cover(top, names.join('/'));
  for (const names of settings) if (!isOpened(top, names)) hideIfNeeded(top, names, collector);
  for (const names of closed) guardWhole(top, names, collector);
  for (const names of bare.filter((each) => !isOpened(top, [...each, '.git', 'HEAD']))) {
    const folder = guardWhole(top, names, collector);
    if (folder !== undefined) hideCredentials(folder, collector);
  }
}

function guardWhole(top: Pinned, names: readonly string[], collector: Collector): Pinned | undefined {
  const above = keepAll(top, names.slice(0, -1), collector);
  return above === undefined || names.length === 0 ? undefined : collector.readOnly(above, names.at(-1) as string);
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
 * that name would be in the way of git's own word `HEAD`; there a new repository is noticed only.
 */
function guardTopItself(top: Pinned, collector: Collector): void {
  if (top.guard === undefined || isOpened(top, ['.git', 'HEAD'])) return;
  const has = (path: string) => lookWithin(top, path) !== undefined;
  if (isRepository([], has)) {
    if (top.guard.git === 'read') for (const name of contentOfGit) collector.readOnly(top, name);
    for (const { name, content } of rulesOfGit) collector.occupy(top, name, content);
    hideCredentials(top, collector);
    guardOrders(top, top.real, collector, top.real);
    return;
  }
  const isOther = has('.git/HEAD') || lookWithin(top, '.git')?.isFile() === true;
  if (!isOther && !isInRepository(top.real)) collector.occupy(top, 'HEAD');
}

/** Whether one of the folders above is a repository. */
function isInRepository(folder: string): boolean {
  const above = dirname(folder);
  if (above === folder) return false;
  return existsSync(join(above, '.git')) || isInRepository(above);
}

function guardNested(top: Pinned, folder: Pinned, collector: Collector): void {
  const git = collector.readOnly(folder, '.git');
  if (git !== undefined) hideCredentials(git, collector);
  collector.readOnly(folder, '.gitmodules');
  guardOrders(top, folder.real, collector);
  guardSubmodules(top, folder, collector);
}

function keepAll(top: Pinned, names: readonly string[], collector: Collector): Pinned | undefined {
  let here: Pinned | undefined = top;
  for (const name of names) here = here && collector.keep(here, name);
  return here;
}

/** Nothing can be mounted upon a link, and whoever may write the folder could replace it. */
function assertNoLink(folder: Pinned): void {
  if (!lookWithin(folder, '.git')?.isSymbolicLink()) return;
  throw unavailable(
    'the ".git" of a folder that may be written is a link, and cannot be guarded',
    'Put the repository in its place, or a file that says "gitdir: " and where the repository lies.',
  );
}

/**
 * Git goes into each submodule by itself, and takes whatever repository it finds there. So where one is missing still,
 * its folder is read-only as a whole.
 */
function guardSubmodules(top: Pinned, folder: Pinned, collector: Collector): void {
  if (lookWithin(folder, '.git') === undefined) return;
  for (const names of submodulesOf(folder)) {
    makeFolders(folder, names);
    const above = keepAll(folder, names.slice(0, -1), collector);
    const last = names.at(-1) as string;
    if (above === undefined || lookWithin(above, last)?.isDirectory() !== true) continue;
    if (lookWithin(above, `${last}/.git`) === undefined) collector.readOnly(above, last);
    else {
      const inner = collector.keep(above, last);
      if (inner !== undefined) guardNested(top, inner, collector);
    }
  }
}

function submodulesOf(folder: Pinned): string[][] {
  const paths = parseGitConfig(readSettings(folder, '.gitmodules'))
    .filter(({ name }) => name === 'submodule.path')
    .map(({ value }) => value.split('/'));
  const found = paths.filter((names) => names.every((name) => !['', '.', '..', '.git'].includes(name)));
  if (found.length <= mostSubmodules) return found;
  throw unavailable(
    `a ".gitmodules" in the workspace names more than ${mostSubmodules} submodules, and they cannot all be guarded`,
    'Look who wrote it, and shorten or remove it.',
  );
}

/** The text of a small file; empty where there is none, or none that can be read. */
function readSettings(folder: Pinned, name: string): string {
  const file = pinWithin(folder, name);
  if (file === undefined) return '';
  try {
    if (!file.stats.isFile()) return '';
    if (file.stats.size <= largestSettings) return readPinned(file).toString('utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EAGAIN') {
      throw unavailable(`a "${name}" in the workspace is held by another program`, 'End that program, and try again.');
    }
    return '';
  } finally {
    release([file]);
  }
  throw unavailable(
    `a "${name}" in the workspace is larger than 1 MiB, and what it names cannot be guarded`,
    'Look who wrote it, and shorten or remove it.',
  );
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
    for (const entry of entriesOf(`/proc/self/fd/${folder.descriptor}`)) {
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

function entriesOf(path: string) {
  try {
    return readdirSync(path, { withFileTypes: true });
  } catch {
    return [];
  }
}
