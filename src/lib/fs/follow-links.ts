import { type Dir, type Dirent, lstatSync, opendirSync, readlinkSync, type Stats } from 'node:fs';
import { dirname, resolve, sep } from 'node:path';

/** Where an absolute path leads. */
export interface FollowedPath {
  /** Without links, as far as it exists. */
  readonly place: string;
  /** The links on the way, each by the place it lies at. */
  readonly links: readonly string[];
  /** The first place on the way at which nothing is found. */
  readonly missing: string | undefined;
}

/** Looks at a place without following what is there; undefined where nothing can be found. */
export type LstatPath = (place: string) => Stats | undefined;

const maxLinks = 40;

/** Follows each link on the way to a path, to its end or to where nothing is. Undefined where they lead in a circle. */
export function followLinks(path: string, lookAt: LstatPath = lookAtPlace): FollowedPath | undefined {
  const links: string[] = [];
  let missing: string | undefined;
  let place = '';
  const ahead = splitNames(path).reverse();
  for (let name = ahead.pop(); name !== undefined; name = ahead.pop()) {
    const next = `${place}/${name}`;
    const found = missing === undefined ? lookAt(next) : undefined;
    const target = found?.isSymbolicLink() ? readLinkTarget(next) : undefined;
    if (target === undefined) {
      if (found === undefined) missing ??= next;
      place = next;
      continue;
    }
    if (links.push(next) > maxLinks) return undefined;
    ahead.push(...splitNames(resolve(dirname(next), target)).reverse());
    place = '';
  }
  return { place: place === '' ? sep : place, links, missing };
}

function readLinkTarget(link: string): string | undefined {
  try {
    return readlinkSync(link);
  } catch {
    return undefined;
  }
}

const splitNames = (path: string): string[] => path.split(sep).filter((name) => name !== '');

/** The same as the default above, for whoever wants to note what was looked at. */
export function lookAtPlace(place: string): Stats | undefined {
  try {
    return lstatSync(place, { throwIfNoEntry: false });
  } catch {
    return undefined;
  }
}

/** Those who may write what is searched here are no strangers, so what is beyond the bound is left out. */
const maxEntries = 2000;

export interface LinkSearch {
  readonly lookAt?: LstatPath;
  readonly entriesIn?: (folder: string) => readonly Dirent[];
  /** The names in a folder that are followed by their own, as `followedIn` tells them. */
  readonly followedIn?: (folder: string) => readonly string[];
  /** How many levels of folders are looked into. */
  readonly maxLevels?: number;
}

/** The links at a place and in the folders below, without those of packages. */
export function linksAt(place: string, search: LinkSearch = {}): string[] {
  const { lookAt = lookAtPlace, entriesIn = entriesInFolder, maxLevels = 6 } = search;
  const top = lookAt(place);
  if (top?.isSymbolicLink()) return [place];
  const links: string[] = [];
  const folders = top?.isDirectory() ? [{ path: place, level: 1 }] : [];
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

/** A listing that takes everybody's time goes no further. */
export const maxListed = 10_000;

/** The first of a folder. None where it is no folder, or cannot be looked into. */
export function entriesInFolder(folder: string): Dirent[] {
  const entries: Dirent[] = [];
  for (const entry of readEntries(folder)) if (entries.push(entry) === maxListed) break;
  return entries;
}

/** All of a folder one by one, so that whoever looks can stop. Those that were not there at the beginning may be missing. */
export function* readEntries(folder: string): Generator<Dirent> {
  let opened: Dir | undefined;
  try {
    opened = opendirSync(folder, { bufferSize: 256 });
    for (let entry = opened.readSync(); entry !== null; entry = opened.readSync()) yield entry;
  } catch {
    // It is no folder, or cannot be looked into.
  } finally {
    opened?.closeSync();
  }
}
