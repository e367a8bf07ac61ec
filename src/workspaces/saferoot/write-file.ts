import { accessSync, constants, fchmodSync, fchownSync, fstatSync, lstatSync, renameSync, type Stats } from 'node:fs';
import { joinNames } from './check-access.ts';
import { assertParentUnmoved, claimFileName, removeIfOurs, undoOnError } from './claim-name.ts';
import { computeVersion, type LocatedFile, type ResolvedPath, toFileInfo } from './file-info.ts';
import { type Handle, pathAt } from './platform/platform-fs.ts';
import { recordChange } from './recent-changes.ts';
import {
  assertRegularFile,
  type RootFolder,
  type RootWalk,
  requireLocation,
  requireNode,
  withPath,
  withPathAsync,
} from './root-folder.ts';
import { SafeRootError } from './saferoot-error.ts';
import { type FileContent, writeTemporary } from './temporary-file.ts';
import type { EntryLocation, WalkResult } from './walk-path.ts';

export interface CreateOptions {
  readonly parents?: boolean;
  /** The content is on the disk when the promise resolves, not only in the cache of the system. */
  readonly sync?: boolean;
  /** Larger content is refused, and nothing is changed. */
  readonly maxBytes?: number;
  /** Narrowed by the umask; 0o666 by default. */
  readonly mode?: number;
}

export interface ReplaceOptions extends CreateOptions {
  /** Creates a file that does not exist; `mode` is for this case. */
  readonly create?: boolean;
  /** Replaces only the file that still has this version. */
  readonly version?: string;
  /** Permission bits for a file that is replaced, instead of those it had. */
  readonly changeMode?: number;
}

export interface WrittenFile extends LocatedFile {
  readonly created: boolean;
  readonly folders: number;
}

const walkOptionsFor = (options: CreateOptions): RootWalk => ({
  access: 'write',
  make: options.parents ? 'parents' : undefined,
});

export interface MayWriteOptions {
  /** As `create`: not even a link may have the name. */
  readonly absent?: boolean;
  /** As `replace` with this version. */
  readonly version?: string;
}

/** Returns the path a file would be written to, or throws what writing would throw. Nothing is made or changed. */
export function checkWritable(
  folder: RootFolder,
  path: string,
  { absent = false, version }: MayWriteOptions = {},
): ResolvedPath {
  const make = version === undefined ? 'none' : undefined;
  return withPath(folder, path, { access: 'write', make, keepLastLink: absent }, (end) => {
    if (absent && end.node !== undefined) throw new SafeRootError('EXISTS');
    if (end.node !== undefined || version !== undefined) assertReplaceable(folder, end, version);
    accessSync(requireLocation(end).folder.path, constants.W_OK | constants.X_OK);
    return { path: joinNames(end.names) };
  });
}

/** Creates a file that is whole from the start. Nothing that exists is touched, not even a link to nowhere. */
export async function createFile(
  folder: RootFolder,
  path: string,
  content: FileContent,
  options: CreateOptions = {},
): Promise<WrittenFile> {
  return withPathAsync(folder, path, { ...walkOptionsFor(options), keepLastLink: true }, (end) => {
    if (end.node !== undefined) throw new SafeRootError('EXISTS');
    return placeNewFile(folder, end, content, options);
  });
}

/**
 * Replaces the content of a file. Readers see the old or the new content, never half; another name of the same file
 * keeps the old one. Mode and owner stay.
 */
export async function replaceFile(
  folder: RootFolder,
  path: string,
  content: FileContent,
  options: ReplaceOptions = {},
): Promise<WrittenFile> {
  return withPathAsync(folder, path, { ...walkOptionsFor(options), removesLast: true }, async (end) => {
    if (end.node === undefined && options.create && options.version === undefined) {
      return placeNewFile(folder, end, content, options);
    }
    const old = assertReplaceable(folder, end, options.version);
    const location = requireLocation(end);
    const mode = options.changeMode ?? old.stats.mode;
    const applyAttributes = (descriptor: number) => copyOwnerAndMode(descriptor, old.stats, mode);
    return writeTemporary(location.folder, content, { ...options, mode: 0o600, applyAttributes }, (temporary) => {
      assertParentUnmoved(folder, end, location);
      if (options.version !== undefined) assertVersionInPlace(folder, location, options.version);
      renameSync(temporary, pathAt(location.folder, location.name));
      return describeWritten(folder, end, location, false);
    });
  });
}

function assertReplaceable(folder: RootFolder, end: WalkResult, version: string | undefined): Handle {
  const old = requireNode(end);
  assertRegularFile(old, folder);
  // A rename needs no permission on the file; a write-protected file stays protected.
  accessSync(old.path, constants.W_OK);
  assertVersion(old.stats, version);
  return old;
}

function placeNewFile(
  folder: RootFolder,
  end: WalkResult,
  content: FileContent,
  options: CreateOptions,
): Promise<WrittenFile> {
  const location = requireLocation(end);
  return writeTemporary(location.folder, content, { ...options, mode: options.mode ?? 0o666 }, (temporary) => {
    assertParentUnmoved(folder, end, location);
    const written = lstatSync(temporary);
    claimFileName(temporary, pathAt(location.folder, location.name));
    undoOnError(
      () => assertParentUnmoved(folder, end, location),
      () => removeIfOurs(location, written),
    );
    return describeWritten(folder, end, location, true);
  });
}

function describeWritten(folder: RootFolder, end: WalkResult, location: EntryLocation, created: boolean): WrittenFile {
  recordChange(location.folder);
  const current = folder.fs.step(location.folder, location.name);
  folder.fs.release(current);
  return { ...toFileInfo(current.stats), path: joinNames(end.names), created, folders: end.made };
}

function assertVersion(stats: Stats, version: string | undefined): void {
  if (version !== undefined && computeVersion(stats) !== version) throw new SafeRootError('CHANGED');
}

/** Compares the version again when the new content is ready, to leave only an instant for other changes. */
function assertVersionInPlace(folder: RootFolder, location: EntryLocation, version: string): void {
  const current = folder.fs.step(location.folder, location.name);
  try {
    assertVersion(current.stats, version);
  } finally {
    folder.fs.release(current);
  }
}

function copyOwnerAndMode(descriptor: number, old: Stats, mode: number): void {
  const current = fstatSync(descriptor);
  if (current.uid !== old.uid || current.gid !== old.gid) {
    try {
      fchownSync(descriptor, old.uid, old.gid);
    } catch {
      // Only root can change the owner; an ordinary account owns what it writes.
    }
  }
  fchmodSync(descriptor, mode & 0o777);
}
