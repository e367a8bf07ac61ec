import { type Dir, type Dirent, lstatSync, opendirSync, readlinkSync, type Stats } from 'node:fs';
import { dirname, resolve, sep } from 'node:path';

/** The result of following the symbolic links of an absolute path. */
interface FollowedPath {
  /** The path without links, as far as it exists. */
  readonly realPath: string;
  /** The links that were followed, each by its own path. */
  readonly links: readonly string[];
  /** The first path component that does not exist. */
  readonly missing: string | undefined;
}

/** Stats a path without following a link there; undefined if nothing is found. */
type LstatPath = (place: string) => Stats | undefined;

const maxLinks = 40;

/** Follows every symbolic link of a path, as far as it exists. Undefined if the links form a circle. */
export function followLinks(path: string, lookAt: LstatPath = lstatIfPresent): FollowedPath | undefined {
  const links: string[] = [];
  let missing: string | undefined;
  let realPath = '';
  const ahead = splitNames(path).reverse();
  for (let name = ahead.pop(); name !== undefined; name = ahead.pop()) {
    const next = `${realPath}/${name}`;
    const found = missing === undefined ? lookAt(next) : undefined;
    const target = found?.isSymbolicLink() ? readLinkTarget(next) : undefined;
    if (target === undefined) {
      if (found === undefined) missing ??= next;
      realPath = next;
      continue;
    }
    if (links.push(next) > maxLinks) return undefined;
    ahead.push(...splitNames(resolve(dirname(next), target)).reverse());
    realPath = '';
  }
  return { realPath: realPath === '' ? sep : realPath, links, missing };
}

function readLinkTarget(link: string): string | undefined {
  try {
    return readlinkSync(link);
  } catch {
    return undefined;
  }
}

const splitNames = (path: string): string[] => path.split(sep).filter((name) => name !== '');

/** The default for `lookAt`, exported for callers that record what was looked at. */
export function lstatIfPresent(path: string): Stats | undefined {
  try {
    return lstatSync(path, { throwIfNoEntry: false });
  } catch {
    return undefined;
  }
}

/** Bound of a search; further entries are ignored. Only trusted users write the folders that are searched. */
const maxEntries = 2000;

export interface LinkSearch {
  readonly lookAt?: LstatPath;
  readonly entriesIn?: (folder: string) => readonly Dirent[];
  /** Lists the protected names in a folder that may be links or hold some. Default: `listProtectedNonFiles`. */
  readonly followedIn?: (folder: string) => readonly string[];
  /** Levels of folders that are searched. */
  readonly maxLevels?: number;
}

/** Finds the links at a path and in the folders below it, except in `node_modules`. */
export function findLinks(start: string, search: LinkSearch = {}): string[] {
  const { lookAt = lstatIfPresent, entriesIn = listFolder, maxLevels = 6 } = search;
  const top = lookAt(start);
  if (top?.isSymbolicLink()) return [start];
  const links: string[] = [];
  const folders = top?.isDirectory() ? [{ path: start, level: 1 }] : [];
  let left = maxEntries;
  for (const { path, level } of folders) {
    for (const entry of entriesIn(path)) {
      if (left-- <= 0) return links;
      if (entry.isSymbolicLink()) links.push(`${path}/${entry.name}`);
      const isEntered = entry.isDirectory() && level < maxLevels && entry.name !== 'node_modules';
      if (isEntered) folders.push({ path: `${path}/${entry.name}`, level: level + 1 });
    }
  }
  return links;
}

/** Bound of one listing, which blocks the event loop. */
export const maxListed = 10_000;

/** Lists the first entries of a folder. Empty if it is no folder or cannot be read. */
export function listFolder(folder: string): Dirent[] {
  const entries: Dirent[] = [];
  for (const entry of iterateFolder(folder)) if (entries.push(entry) === maxListed) break;
  return entries;
}

/** Reads the entries of a folder one by one, so that the caller can stop. Entries created meanwhile may be missing. */
export function* iterateFolder(folder: string): Generator<Dirent> {
  let opened: Dir | undefined;
  try {
    opened = opendirSync(folder, { bufferSize: 256 });
    for (let entry = opened.readSync(); entry !== null; entry = opened.readSync()) yield entry;
  } catch {
    // It is no folder, or cannot be read.
  } finally {
    opened?.closeSync();
  }
}
