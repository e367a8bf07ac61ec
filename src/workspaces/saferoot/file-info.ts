import type { Stats } from 'node:fs';
import { joinNames } from './check-access.ts';
import { SafeRootError } from './saferoot-error.ts';
import { type RootFolder, readLinkAt, requireNode, withPath } from './walk-path.ts';

export type FileKind = 'file' | 'folder' | 'link' | 'special';

export interface FileInfo {
  readonly kind: FileKind;
  readonly size: number;
  readonly mode: number;
  readonly modifiedMs: number;
  /** The number of hard links. */
  readonly names: number;
  /** Differs after the file was replaced or written; only for comparing. */
  readonly version: string;
}

/** The path that a request led to, links followed. */
export interface ResolvedPath {
  readonly path: string;
}

export interface LocatedFile extends FileInfo, ResolvedPath {}

export function toFileInfo(stats: Stats): FileInfo {
  return {
    kind: kindFromStats(stats),
    size: stats.size,
    mode: stats.mode & 0o7777,
    modifiedMs: stats.mtimeMs,
    names: stats.nlink,
    version: computeVersion(stats),
  };
}

export function computeVersion(stats: Stats): string {
  return [stats.ino, stats.size, stats.mtimeMs, stats.ctimeMs].join(':');
}

export function kindFromStats(seen: Pick<Stats, 'isFile' | 'isDirectory' | 'isSymbolicLink'>): FileKind {
  if (seen.isFile()) return 'file';
  if (seen.isDirectory()) return 'folder';
  return seen.isSymbolicLink() ? 'link' : 'special';
}

export interface StatOptions {
  /** Describes a link itself, not its target. */
  readonly link?: boolean;
}

export function statFile(folder: RootFolder, path: string, options: StatOptions = {}): LocatedFile {
  const keepLastLink = options.link === true;
  return withPath(folder, path, { access: 'read', keepLastLink }, (end) => ({
    ...toFileInfo(requireNode(end).stats),
    path: joinNames(end.names),
  }));
}

export interface ReadlinkOptions {
  /** Returns absolute targets too, for callers that do not pass them on. */
  readonly absolute?: boolean;
}

/** Reads the target of a link. Refuses an absolute target unless asked for, since it is a path of the host. */
export function readLinkTarget(folder: RootFolder, path: string, options: ReadlinkOptions = {}): string {
  return withPath(folder, path, { access: 'read', keepLastLink: true }, (end) => {
    const node = requireNode(end);
    if (end.location === undefined || !node.stats.isSymbolicLink()) throw new SafeRootError('NOT_A_LINK');
    const target = readLinkAt(end.location.folder, end.location.name);
    if (target === undefined) throw new SafeRootError('CHANGED');
    if (target.startsWith('/') && options.absolute !== true) throw new SafeRootError('PATH_VIOLATION');
    return target;
  });
}
