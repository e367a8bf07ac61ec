import { entriesInFolder, followLinks, type LinkSearch, linksAt, lookAtPlace, mostListed } from './follow-links.ts';
import { guardedNames, guardedPaths, isGuardedName } from './guarded-names.ts';

/** Stores of content, which are large. What is followed lies right in them. */
const stores: ReadonlySet<string> = new Set(['.hg', '.jj', '.sl', '_darcs']);
const namesToAsk = [...guardedNames, ...guardedPaths.map((path) => path.split('/')[0] as string)].filter(
  (name) => !name.includes('*'),
);
/** What git follows in the folder of a repository, whatever its configuration says. */
const followedByGit = ['hooks', 'info', 'config', 'config.worktree'];

/**
 * Paths in a folder that are guarded, or lie in what is guarded, and lead elsewhere by a link. Whoever may write what
 * they lead to gives the same orders as if they were written themselves.
 */
export function guardedLinksIn(
  folder: string,
  isFree: (names: readonly string[]) => boolean,
  search: LinkSearch = {},
): string[] {
  const { entriesIn = entriesInFolder, lookAt = lookAtPlace } = search;
  const all = entriesIn(folder);
  // A plain file leads nowhere. Where not all are listed, plain names are asked for one by one.
  const listed = all.filter((entry) => !entry.isFile()).map(({ name }) => name);
  const present = new Set([...listed, ...(all.length < mostListed ? [] : namesToAsk)]);
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
