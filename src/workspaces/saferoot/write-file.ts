import { accessSync, constants, fchmodSync, fchownSync, fstatSync, lstatSync, renameSync, type Stats } from 'node:fs';
import { asPath } from './check-access.ts';
import { assertPlace, orUndone, removeOwn, takeFileName } from './claim-name.ts';
import { factsOf, type Located, type Resolved, versionOf } from './file-info.ts';
import { at, type Handle } from './platform/platform-fs.ts';
import { noteChange } from './recent-changes.ts';
import { assertFile, type Folder, type FolderWalk, found, placeOf, walked, walkedUntil } from './root-folder.ts';
import { SafeRootError } from './saferoot-error.ts';
import { assertSize, type Content, writeAll, writeBeside } from './temporary-file.ts';
import type { Place, Walked } from './walk-path.ts';

export interface WriteOptions {
  /** Folders missing on the way are made. */
  readonly parents?: boolean;
  /** On the disk when the promise is kept, not only in the system's cache. */
  readonly sync?: boolean;
  /** More than this is refused, and nothing is changed. */
  readonly maxBytes?: number;
}

export interface CreateOptions extends WriteOptions {
  /** Narrowed by the umask; 0o666 unless given. */
  readonly mode?: number;
}

export interface ReplaceOptions extends CreateOptions {
  /** A file that does not exist is created; `mode` is for this case. */
  readonly create?: boolean;
  /** Only the file that had this version when it was read. */
  readonly version?: string;
  /** Permission bits for a file that is replaced, instead of those it had. */
  readonly changeMode?: number;
}

/** What is there now. */
export interface WrittenFile extends Located {
  /** Whether there was no such file before. */
  readonly created: boolean;
  /** How many folders were made on the way. */
  readonly folders: number;
}

const walking = (options: WriteOptions): FolderWalk => ({
  deed: 'write',
  make: options.parents ? 'parents' : undefined,
});

export interface MayWriteOptions {
  /** As `create` would: not even a link may bear the name. */
  readonly absent?: boolean;
  /** As `replace` would with it. */
  readonly version?: string;
}

/** Where a file would be written, or the refusal that writing it would meet. Nothing is made or changed. */
export function mayWrite(folder: Folder, path: string, { absent = false, version }: MayWriteOptions = {}): Resolved {
  const make = version === undefined ? 'none' : undefined;
  return walked(folder, path, { deed: 'write', make, keepLastLink: absent }, (end) => {
    if (absent && end.node !== undefined) throw new SafeRootError('EXISTS');
    if (end.node !== undefined || version !== undefined) assertReplaceable(folder, end, version);
    accessSync(placeOf(end).folder.path, constants.W_OK | constants.X_OK);
    return { path: asPath(end.inside) };
  });
}

/** A new file, whole from the moment it is there. Nothing that exists is touched, not even a link to nowhere. */
export async function create(
  folder: Folder,
  path: string,
  content: Content,
  options: CreateOptions = {},
): Promise<WrittenFile> {
  return walkedUntil(folder, path, { ...walking(options), keepLastLink: true }, (end) => {
    if (end.node !== undefined) throw new SafeRootError('EXISTS');
    return putNew(folder, end, content, options);
  });
}

/**
 * Other content for a file. Readers see the old one or the new one, never half; another name of the same file keeps
 * the old content. Mode and owner stay.
 */
export async function replace(
  folder: Folder,
  path: string,
  content: Content,
  options: ReplaceOptions = {},
): Promise<WrittenFile> {
  return walkedUntil(folder, path, { ...walking(options), lastGoes: true }, async (end) => {
    if (end.node === undefined && options.create && options.version === undefined) {
      return putNew(folder, end, content, options);
    }
    const old = assertReplaceable(folder, end, options.version);
    const place = placeOf(end);
    const mode = options.changeMode ?? old.stats.mode;
    const adorn = (descriptor: number) => keepOwner(descriptor, old.stats, mode);
    return writeBeside(place.folder, content, { ...options, mode: 0o600, adorn }, (temporary) => {
      assertPlace(folder, end, place);
      if (options.version !== undefined) assertStill(folder, place, options.version);
      renameSync(temporary, at(place.folder, place.name));
      return settled(folder, end, place, false);
    });
  });
}

export interface AppendOptions {
  readonly sync?: boolean;
  /** The file may not become larger than this. */
  readonly maxBytes?: number;
}

/** More at the end of a file, in place. So a file that has other names, perhaps outside, is refused. */
export async function append(
  folder: Folder,
  path: string,
  content: string | Uint8Array,
  options: AppendOptions = {},
): Promise<void> {
  await walkedUntil(folder, path, { deed: 'write' }, async (end) => {
    const node = found(end);
    assertFile(node, folder);
    const file = await folder.ground.reopen(node, constants.O_WRONLY | constants.O_APPEND);
    try {
      const { nlink, size } = fstatSync(file.fd);
      if (nlink > 1) throw new SafeRootError('HARD_LINKED');
      const bytes = typeof content === 'string' ? Buffer.from(content) : content;
      assertSize(size + bytes.length, options.maxBytes);
      await writeAll(file, bytes).catch(async (error: unknown) => {
        await file.truncate(size);
        throw error;
      });
      if (options.sync) await file.sync();
    } finally {
      await file.close();
    }
  });
}

function assertReplaceable(folder: Folder, end: Walked, version: string | undefined): Handle {
  const old = found(end);
  assertFile(old, folder);
  // A rename asks only the folder; a file that is write-protected stays so.
  accessSync(old.path, constants.W_OK);
  assertVersion(old.stats, version);
  return old;
}

function putNew(folder: Folder, end: Walked, content: Content, options: CreateOptions): Promise<WrittenFile> {
  const place = placeOf(end);
  return writeBeside(place.folder, content, { ...options, mode: options.mode ?? 0o666 }, (temporary) => {
    assertPlace(folder, end, place);
    const own = lstatSync(temporary);
    takeFileName(temporary, at(place.folder, place.name));
    orUndone(
      () => assertPlace(folder, end, place),
      () => removeOwn(place, own),
    );
    return settled(folder, end, place, true);
  });
}

function settled(folder: Folder, end: Walked, place: Place, created: boolean): WrittenFile {
  noteChange(place.folder);
  const now = folder.ground.step(place.folder, place.name);
  folder.ground.release(now);
  return { ...factsOf(now.stats), path: asPath(end.inside), created, folders: end.made };
}

function assertVersion(stats: Stats, version: string | undefined): void {
  if (version !== undefined && versionOf(stats) !== version) throw new SafeRootError('CHANGED');
}

/** Looked at again with the new content ready, so that only an instant is left for someone else's change. */
function assertStill(folder: Folder, place: Place, version: string): void {
  const now = folder.ground.step(place.folder, place.name);
  try {
    assertVersion(now.stats, version);
  } finally {
    folder.ground.release(now);
  }
}

function keepOwner(descriptor: number, old: Stats, mode: number): void {
  const own = fstatSync(descriptor);
  if (own.uid !== old.uid || own.gid !== old.gid) {
    try {
      fchownSync(descriptor, old.uid, old.gid);
    } catch {
      // Only root can give a file away; an ordinary account becomes the owner of what it writes.
    }
  }
  fchmodSync(descriptor, mode & 0o777);
}
