import { entriesInFolder, followLinks, type LinkSearch, linksAt, lookAtPlace } from './follow-links.ts';
import { guardedPaths, isGuardedName } from './guarded-names.ts';

/** Stores of content, which are large. What is followed lies right in them. */
const stores: ReadonlySet<string> = new Set(['.hg', '.jj']);
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
  // A plain file leads nowhere.
  const entries = entriesIn(folder).filter((entry) => !entry.isFile());
  const byName = entries
    .filter(({ name }) => isGuardedName(name) && !isFree([name]))
    .flatMap(({ name }) => linksAt(`${folder}/${name}`, { ...search, levels: stores.has(name) ? 1 : 6 }));
  const present = new Set(entries.map(({ name }) => name));
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
