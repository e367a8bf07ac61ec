import { dirname } from 'node:path';
import {
  findGitLinks,
  findLinks,
  findProtectedLinks,
  followLinks,
  isProtectedName,
  lstatIfPresent,
} from '../../../lib/fs/protected-paths.ts';
import {
  type ConfiguredPath,
  findGitFolder,
  GitConfigError,
  type GitConfigReader,
  listConfiguredPaths,
  listGitFolders,
} from '../../../lib/git/configured-paths.ts';
import { escapeControls } from '../../../lib/text/escape-controls.ts';
import { sandboxUnavailable } from '../../common/sandbox-errors.ts';
import { isWriteAllowed, type PinnedPath, statChild } from '../pinned-path.ts';
import { type Collector, isPlaceholder } from './mount-collector.ts';

/** A writable folder and the mounts that protect it. */
export interface Protection {
  readonly top: PinnedPath;
  readonly collector: Collector;
  /** One source for all repositories, so that its limits hold for all of them together. */
  readonly source: GitConfigReader;
  /** Yields to the event loop after some time. */
  readonly yieldToOthers: () => Promise<void>;
}

/** More links than this are refused. */
const maxLinks = 500;

/**
 * Protects the paths in a writable folder that the configuration of a repository names: hooks, further configuration,
 * programs, and the targets of links that git follows. They become read-only wherever they lie. A missing path that git
 * would follow later is reserved.
 */
export async function protectGitConfig(context: Protection, workTree: string, gitFolder?: string): Promise<void> {
  const { top, collector, source, yieldToOthers } = context;
  await explainUnreadable(context, workTree, async () => {
    await yieldToOthers();
    const git = gitFolder ?? findGitFolder(workTree, source.read);
    for (const order of listConfiguredPaths(workTree, git, source)) {
      protectOrder(top, order, collector);
      await yieldToOthers();
    }
    for (const each of listGitFolders(git, source.read)) protectLinks(top, findGitLinks(each), collector);
  });
}

/** Refuses the sandbox when a repository cannot be read within its limits. The error names the repository. */
export async function explainUnreadable<T>({ top }: Protection, workTree: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof GitConfigError)) throw error;
    throw sandboxUnavailable(
      `the configuration of git for ${describeWorkTree(top, workTree)} ${error.what}, so the paths in it cannot be protected`,
      'Check "git config --list --show-origin" there, and who wrote it. Shorten it, or remove the repository.',
      error,
    );
  }
}

function describeWorkTree(top: PinnedPath, workTree: string): string {
  if (workTree === top.source) return 'the workspace';
  if (!workTree.startsWith(`${top.source}/`)) return 'a repository around the workspace';
  return `the folder "${escapeControls(workTree.slice(top.source.length + 1).slice(0, 200))}"`;
}

/** Finds the work trees of repositories around a folder. */
export function findWorkTreesAbove(top: PinnedPath): string[] {
  const found: string[] = [];
  for (let above = dirname(top.source); above !== dirname(above); above = dirname(above)) {
    if (lstatIfPresent(`${above}/.git`) !== undefined) found.push(above);
  }
  return found;
}

/** Protects the targets of links that have a protected name at the top of a folder, or lie in a protected folder. */
export function protectProtectedLinks(top: PinnedPath, collector: Collector): void {
  protectLinks(
    top,
    findProtectedLinks(top.source, (names) => isWriteAllowed(top, names)),
    collector,
  );
}

function protectOrder(top: PinnedPath, { path, kind }: ConfiguredPath, collector: Collector): void {
  if (kind === 'path' || kind === 'word') protectPath(top, path, 'present', collector);
  else if (kind === 'settings') protectPath(top, path, 'file', collector, ['.git', 'config']);
  else protectPath(top, path, kind, collector);
  if (kind === 'folder') protectLinks(top, findLinks(path), collector);
}

/** Protects the targets of links that git follows. */
export function protectLinks(top: PinnedPath, links: readonly string[], collector: Collector): void {
  if (links.length > maxLinks) throw tooManyLinks();
  for (const link of links) protectLinkTarget(top, link, 'target', collector);
}

function protectLinkTarget(top: PinnedPath, path: string, what: 'present' | 'target', collector: Collector): void {
  const way = followLinks(path);
  for (const each of way?.links ?? []) watchLink(top, each, collector);
  if (way !== undefined) protectPath(top, way.realPath, what, collector, path.split('/').slice(-2));
}

/** Nothing can be mounted on a link, so a replaced link is detected instead. */
function watchLink(top: PinnedPath, link: string, collector: Collector): void {
  if (link.startsWith(`${top.source}/`)) collector.watchPath(top, link.slice(top.source.length + 1));
}

/** `present` is a word of a command, which counts only as an existing file. `target` is the target of a link. */
type ProtectedKind = 'folder' | 'file' | 'present' | 'target';

/** Protects one path. `known` gives the names by which a settings file is recognised. */
function protectPath(
  top: PinnedPath,
  path: string,
  what: ProtectedKind,
  collector: Collector,
  known?: readonly string[],
): void {
  if (!path.startsWith(`${top.source}/`)) return;
  const names = path.slice(top.source.length + 1).split('/');
  if (isProtectedElsewhere(top, names, what)) return;
  let here: PinnedPath | undefined = top;
  for (const [at, name] of names.entries()) {
    const isLast = at === names.length - 1;
    const found = statChild(here, name);
    if (found === undefined || isPlaceholder(here, name)) {
      if (what === 'present' || top.guard === undefined) return;
      collector.reserveName(here, name, isLast && what !== 'folder' ? '' : undefined);
      return;
    }
    if (found.isSymbolicLink()) {
      // The links on this path have just been resolved, so a new link was made meanwhile.
      if (what !== 'present') throw linkOnPath();
      protectLinkTarget(top, path, what, collector);
      return;
    }
    if (isLast && (what !== 'present' || found.isFile())) collector.addReadOnly(here, name, known);
    here = isLast ? undefined : collector.keepInPlace(here, name);
    if (here === undefined) return;
  }
}

/** Whether a path lies in a read-only repository or folder, or the operator has opened it by its name. */
function isProtectedElsewhere(top: PinnedPath, names: readonly string[], what: ProtectedKind): boolean {
  const [first = ''] = names;
  if (names.includes('.git')) return first !== '.git' || top.guard?.git !== 'write';
  return isProtectedName(first) && (what === 'target' || isWriteAllowed(top, [first]));
}

function linkOnPath() {
  return sandboxUnavailable(
    'the git configuration of a repository names a path in the workspace that leads through a symbolic link and cannot be protected',
    'Check "git config --list --show-origin", and use the path without symbolic links there.',
  );
}

function tooManyLinks() {
  return sandboxUnavailable(
    `the protected files of the workspace include more than ${maxLinks} symbolic links, so not all of their targets can be protected`,
    'Check who created them, and remove what is not needed.',
  );
}
