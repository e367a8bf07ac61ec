import { createHash, randomBytes } from 'node:crypto';
import {
  accessSync,
  closeSync,
  constants,
  fchmodSync,
  fchownSync,
  fstatSync,
  fsyncSync,
  lstatSync,
  openSync,
  readFileSync,
  readlinkSync,
  renameSync,
  type Stats,
  unlinkSync,
  writeSync,
} from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';
import { hostname } from 'node:os';
import { joinNames } from './check-access.ts';
import { assertParentUnmoved, claimFileName, removeIfOurs, undoOnError } from './claim-name.ts';
import { computeVersion, type LocatedFile, type ResolvedPath, toFileInfo } from './file-info.ts';
import { type Handle, pathAt } from './platform/platform-fs.ts';
import { recordChange } from './recent-changes.ts';
import { SafeRootError } from './saferoot-error.ts';
import {
  assertRegularFile,
  type EntryLocation,
  type RootFolder,
  type RootWalk,
  requireLocation,
  requireNode,
  type WalkResult,
  withPath,
  withPathAsync,
} from './walk-path.ts';

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

/**
 * The pattern of temporary names. They contain the writer: six digits for the machine and its process numbering, six
 * for the process, the rest random. So files of killed processes can be told from those still being written.
 */
const namePattern = /^\.ambit-([0-9a-f]{6})([0-9a-f]{6})[0-9a-f]{16}\.tmp$/;

const activeNames = new Set<string>();

let machineId: string | undefined;

/** No write takes this long, and a writer on another machine cannot be asked. */
const maxWriteMs = 600_000;

const bootFile = '/proc/sys/kernel/random/boot_id';

export type FileContent = string | Uint8Array | AsyncIterable<Uint8Array>;

export interface TemporaryOptions {
  readonly mode: number;
  readonly maxBytes?: number | undefined;
  readonly sync?: boolean | undefined;
  /** Applies what the old file had before the new one takes its place. */
  readonly applyAttributes?: (descriptor: number) => void;
}

/**
 * Writes a whole file beside its place, and calls `moveIntoPlace` with its path. The temporary file is gone afterwards,
 * whatever fails.
 */
async function writeTemporary<T>(
  folder: Handle,
  content: FileContent,
  options: TemporaryOptions,
  moveIntoPlace: (temporary: string) => T,
): Promise<T> {
  const name = createTemporaryName();
  const temporary = pathAt(folder, name);
  const flags = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW;
  try {
    if (isSmall(content) && !options.sync) writeSmall(temporary, flags, content, options);
    else await writeLarge(temporary, flags, content, options);
    const result = moveIntoPlace(temporary);
    if (options.sync) syncFolder(folder);
    return result;
  } finally {
    removeIfPresent(temporary);
    releaseTemporaryName(name);
  }
}

async function writeLarge(path: string, flags: number, content: FileContent, options: TemporaryOptions): Promise<void> {
  const file = await open(path, flags, options.mode & 0o777);
  try {
    await writeContent(file, content, options.maxBytes);
    options.applyAttributes?.(file.fd);
    if (options.sync) await file.sync();
  } finally {
    await file.close();
  }
}

/** Up to this size a synchronous write is faster than the thread pool. */
const maxSmallBytes = 65_536;

function isSmall(content: FileContent): content is string | Uint8Array {
  return (typeof content === 'string' || content instanceof Uint8Array) && content.length <= maxSmallBytes;
}

function writeSmall(path: string, flags: number, content: string | Uint8Array, options: TemporaryOptions): void {
  const bytes = typeof content === 'string' ? Buffer.from(content) : content;
  assertSize(bytes.length, options.maxBytes);
  const descriptor = openSync(path, flags, options.mode & 0o777);
  try {
    for (let offset = 0; offset < bytes.length; ) offset += writeSync(descriptor, bytes, offset);
    options.applyAttributes?.(descriptor);
  } finally {
    closeSync(descriptor);
  }
}

function removeIfPresent(path: string): void {
  try {
    // Usually it has been moved, and an error takes much longer than a stat.
    if (lstatSync(path, { throwIfNoEntry: false }) !== undefined) unlinkSync(path);
  } catch {
    // Another process has removed it.
  }
}

function syncFolder(folder: Handle): void {
  const descriptor = openSync(folder.path, constants.O_RDONLY | constants.O_DIRECTORY);
  try {
    fsyncSync(descriptor);
  } catch {
    // Some file systems cannot sync folders; the file is whole either way.
  } finally {
    closeSync(descriptor);
  }
}

/** Writes content into an empty file, and fails when it is too large. */
async function writeContent(file: FileHandle, content: FileContent, maxBytes: number | undefined): Promise<void> {
  const pieces = typeof content === 'string' ? Buffer.from(content) : content;
  let total = 0;
  for await (const piece of pieces instanceof Uint8Array ? [pieces] : pieces) {
    total += piece.length;
    assertSize(total, maxBytes);
    for (let offset = 0; offset < piece.length; ) offset += (await file.write(piece, offset)).bytesWritten;
  }
}

function assertSize(bytes: number, maxBytes: number | undefined): void {
  if (maxBytes !== undefined && bytes > maxBytes) {
    throw new SafeRootError('TOO_LARGE', { what: 'would become larger than allowed' });
  }
}

/** Tells whether a running or killed write uses the name. */
export function isTemporaryName(name: string): boolean {
  return namePattern.test(name);
}

export function createTemporaryName(): string {
  const writer = process.pid.toString(16).padStart(6, '0').slice(-6);
  const name = `.ambit-${readMachineId()}${writer}${randomBytes(8).toString('hex')}.tmp`;
  activeNames.add(name);
  return name;
}

export function releaseTemporaryName(name: string): void {
  activeNames.delete(name);
}

/** Tells whether no process will move the file into place any more. */
export function isLeftOver(name: string, modifiedMs: number): boolean {
  const [, machine, writer] = namePattern.exec(name) ?? [];
  if (machine === undefined || writer === undefined || activeNames.has(name)) return false;
  if (Date.now() - modifiedMs > maxWriteMs) return true;
  const writerId = Number.parseInt(writer, 16);
  return machine === readMachineId() && (writerId === process.pid || !isProcessAlive(writerId));
}

function isProcessAlive(id: number): boolean {
  try {
    process.kill(id, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code !== 'ESRCH';
  }
}

/** Identifies the machine, its boot and its container: only there does a number mean one process. */
function readMachineId(): string {
  machineId ??= createHash('sha256')
    .update(
      [
        hostname(),
        readOrEmpty(() => readFileSync(bootFile, 'latin1')),
        readOrEmpty(() => readlinkSync('/proc/self/ns/pid')),
      ].join(),
    )
    .digest('hex')
    .slice(0, 6);
  return machineId;
}

function readOrEmpty(read: () => string): string {
  try {
    return read();
  } catch {
    return '';
  }
}
