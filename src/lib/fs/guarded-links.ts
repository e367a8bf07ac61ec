import type { Dirent } from 'node:fs';
import { entriesInFolder, followLinks, type LinkSearch, linksAt, lookAtPlace, mostListed } from './follow-links.ts';
import { guardedNames, guardedPaths, isGuardedName } from './guarded-names.ts';

/** Stores of content, which are large. What is followed lies right in them. */
const stores: ReadonlySet<string> = new Set(['.hg', '.jj', '.sl', '_darcs']);
/** What git follows in the folder of a repository, whatever its configuration says. */
const followedByGit = ['hooks', 'info', 'config', 'config.worktree'];
const tops: ReadonlySet<string> = new Set(guardedPaths.map((path) => path.split('/')[0] as string));
/** The names of which one look each tells whether they are there. */
const plainNames = [...guardedNames.filter((name) => !name.includes('*')), ...tops];

/** Whether something in a folder is guarded by its name, or holds what is, and can lead elsewhere: a plain file cannot. */
export function isFollowed(entry: Dirent): boolean {
  return !entry.isFile() && (tops.has(entry.name) || isGuardedName(entry.name));
}

/** The names of all that is so in a folder. Where not all of it is listed, plain names are asked for one by one. */
export function followedIn(folder: string): string[] {
  const entries = entriesInFolder(folder);
  const listed = entries.filter(isFollowed).map(({ name }) => name);
  return entries.length < mostListed ? listed : [...listed, ...plainlyFollowedIn(folder)];
}

/** Those among them that are known without a look at the whole folder. */
export function plainlyFollowedIn(folder: string): string[] {
  return plainNames.filter((name) => lookAtPlace(`${folder}/${name}`)?.isFile() === false);
}

/**
 * Paths in a folder that are guarded, or lie in what is guarded, and lead elsewhere by a link. Whoever may write what
 * they lead to gives the same orders as if they were written themselves.
 */
export function guardedLinksIn(
  folder: string,
  isFree: (names: readonly string[]) => boolean,
  search: LinkSearch = {},
): string[] {
  const { lookAt = lookAtPlace } = search;
  const present = new Set((search.followedIn ?? followedIn)(folder));
  const byName = [...present]
    .filter((name) => isGuardedName(name) && !isFree([name]))
    .flatMap((name) => linksAt(`${folder}/${name}`, { ...search, levels: stores.has(name) ? 1 : 6 }));
  const byPath = guardedPaths
    .filter((path) => present.has(path.split('/')[0] as string) && !isFree(path.split('/')))
    .flatMap((path) => {
      const way = followLinks(`${folder}/${path}`, lookAt);
      const isLed = way?.links.some((link) => link.startsWith(`${folder}/`)) ?? false;
      return isLed ? [`${folder}/${path}`] : linksAt(`${folder}/${path}`, search);
    });
  return [...byName, ...byPath];
}

/** The same in the folder of a repository. */
export function gitLinksIn(gitFolder: string, search: LinkSearch = {}): string[] {
  return followedByGit.flatMap((name) => linksAt(`${gitFolder}/${name}`, search));
}
