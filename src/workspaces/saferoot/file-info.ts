import type { Stats } from 'node:fs';
import { asPath } from './check-access.ts';
import { type Folder, found, walked } from './root-folder.ts';
import { SafeRootError } from './saferoot-error.ts';
import { targetOf } from './walk-path.ts';

export type Kind = 'file' | 'folder' | 'link' | 'special';

export interface Facts {
  readonly kind: Kind;
  readonly size: number;
  /** The permission bits. */
  readonly mode: number;
  readonly modifiedMs: number;
  /** How many names the file has. */
  readonly names: number;
  /** Differs when the file was replaced or written since; compare only. */
  readonly version: string;
}

/** Where a path led, links followed. */
export interface Resolved {
  readonly path: string;
}

/** What is known of something, and where it is. */
export interface Located extends Facts, Resolved {}

export function factsOf(stats: Stats): Facts {
  return {
    kind: kindOf(stats),
    size: stats.size,
    mode: stats.mode & 0o7777,
    modifiedMs: stats.mtimeMs,
    names: stats.nlink,
    version: versionOf(stats),
  };
}

export function versionOf(stats: Stats): string {
  return [stats.ino, stats.size, stats.mtimeMs, stats.ctimeMs].join(':');
}

export function kindOf(seen: Pick<Stats, 'isFile' | 'isDirectory' | 'isSymbolicLink'>): Kind {
  if (seen.isFile()) return 'file';
  if (seen.isDirectory()) return 'folder';
  return seen.isSymbolicLink() ? 'link' : 'special';
}

export interface StatOptions {
  /** Tell of a link itself, not of what it leads to. */
  readonly link?: boolean;
}

export function stat(folder: Folder, path: string, options: StatOptions = {}): Located {
  const keepLastLink = options.link === true;
  return walked(folder, path, { deed: 'read', keepLastLink }, (end) => ({
    ...factsOf(found(end).stats),
    path: asPath(end.inside),
  }));
}

export interface ReadlinkOptions {
  /** Tell of an absolute target too: for those who keep it to themselves. */
  readonly absolute?: boolean;
}

/** What a link says. A target that is absolute is not told unless asked for: it is a path of the host. */
export function readlink(folder: Folder, path: string, options: ReadlinkOptions = {}): string {
  return walked(folder, path, { deed: 'read', keepLastLink: true }, (end) => {
    const node = found(end);
    if (end.place === undefined || !node.stats.isSymbolicLink()) throw new SafeRootError('NOT_A_LINK');
    const target = targetOf(end.place.folder, end.place.name);
    if (target === undefined) throw new SafeRootError('CHANGED');
    if (target.startsWith('/') && options.absolute !== true) throw new SafeRootError('PATH_VIOLATION');
    return target;
  });
}
