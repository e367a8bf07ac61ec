import { isUtf8 } from 'node:buffer';
import { closeSync, constants, createWriteStream, fstatSync, lstatSync, read as readBytes, readSync } from 'node:fs';
import { chmod, copyFile } from 'node:fs/promises';
import { pipeline } from 'node:stream/promises';
import { setImmediate as turn } from 'node:timers/promises';
import { promisify } from 'node:util';
import { readNames } from './assert-no-repository.ts';
import { joinNames } from './check-access.ts';
import { type FileKind, type LocatedFile, toFileInfo } from './file-info.ts';
import { type Handle, pathAt } from './platform/platform-fs.ts';
import { asSafeRootError, SafeRootError } from './saferoot-error.ts';
import { assertRegularFile, type RootFolder, requireNode, withPath, withPathAsync } from './walk-path.ts';

interface ByteRange {
  readonly offset?: number;
  /** Up to the end of the file by default. */
  readonly length?: number;
}

/** A file open for reading. It stays the same file whatever happens to its name; the caller closes it. */
export interface OpenRootFile {
  readonly facts: LocatedFile;
  /** Returns fewer bytes than asked for only at the end of the file. */
  read(offset: number, length: number): Promise<Buffer>;
  chunks(range?: ByteRange & { readonly chunkBytes?: number }): AsyncGenerator<Buffer, void, undefined>;
  /** Copies the content into a new file that nobody else can reach, sharing blocks where the system can. */
  copyTo(target: string): Promise<void>;
  close(): Promise<void>;
}

const readAsync = promisify(readBytes);

export function openFile(folder: RootFolder, path: string): OpenRootFile {
  const { descriptor, names } = withPath(folder, path, { access: 'read' }, (end) => {
    const node = requireNode(end);
    assertRegularFile(node, folder);
    return { descriptor: folder.fs.reopenToRead(node), names: end.names };
  });
  return createOpenFile(descriptor, { ...toFileInfo(fstatSync(descriptor)), path: joinNames(names) }, path);
}

/** Up to this size a synchronous read is faster than the thread pool. */
const maxSyncBytes = 65_536;

function createOpenFile(descriptor: number, facts: LocatedFile, path: string): OpenRootFile {
  let activeReads = 0;
  let isClosed = false;

  /** Keeps the file open while reads run: the number of a closed descriptor is reused. */
  async function runRead<T>(work: () => Promise<T>): Promise<T> {
    if (isClosed) throw new SafeRootError('CLOSED', { path });
    activeReads++;
    try {
      return await work();
    } finally {
      activeReads--;
      closeWhenIdle();
    }
  }

  function closeWhenIdle(): void {
    if (isClosed && activeReads === 0) closeSync(descriptor);
  }

  async function readFrom(offset: number, length: number): Promise<Buffer> {
    let filled = 0;
    let bytes = Buffer.alloc(0);
    try {
      // Allocates no more than the file holds, whatever was asked for.
      bytes = Buffer.allocUnsafe(Math.max(0, Math.min(length, fstatSync(descriptor).size - offset)));
      const isSmall = facts.size <= maxSyncBytes && bytes.length <= maxSyncBytes;
      while (filled < bytes.length) {
        const [left, from] = [bytes.length - filled, offset + filled];
        const count = isSmall
          ? readSync(descriptor, bytes, filled, left, from)
          : (await readAsync(descriptor, bytes, filled, left, from)).bytesRead;
        if (count === 0) break;
        filled += count;
      }
    } catch (error) {
      throw asSafeRootError(error, path);
    }
    return bytes.subarray(0, filled);
  }

  async function read(offset: number, length: number): Promise<Buffer> {
    assertByteRange(offset, length);
    return runRead(() => readFrom(offset, length));
  }

  async function* chunks({
    offset = 0,
    length = Number.POSITIVE_INFINITY,
    chunkBytes = 65_536,
  }: ByteRange & { readonly chunkBytes?: number } = {}) {
    for (let at = offset, left = length; left > 0; ) {
      const chunk = await read(at, Math.min(chunkBytes, left));
      if (chunk.length === 0) return;
      at += chunk.length;
      left -= chunk.length;
      yield chunk;
    }
  }

  return {
    facts,
    read,
    chunks,
    copyTo: (target) =>
      runRead(async () => {
        if (process.platform === 'linux') {
          await copyFile(`/proc/self/fd/${descriptor}`, target, constants.COPYFILE_EXCL | constants.COPYFILE_FICLONE);
          // The copy has the permissions of the file, set-user-id among them.
          await chmod(target, 0o600);
        } else await pipeline(chunks(), createWriteStream(target, { flags: 'wx', mode: 0o600 }));
      }),
    async close() {
      if (isClosed) return;
      isClosed = true;
      closeWhenIdle();
    },
  };
}

/** Refuses negative numbers: to the system a negative offset means "from the current position". */
function assertWholeNumber(value: number, name: string): void {
  if (!Number.isSafeInteger(value) || value < 0) throw new RangeError(`${name} must be a whole number, 0 or more`);
}

export function assertByteRange(offset: number, length: number): void {
  assertWholeNumber(offset, 'offset');
  assertWholeNumber(length, 'length');
}

export interface ReadFileOptions extends ByteRange {
  readonly maxBytes?: number;
}

const defaultMaxBytes = 64 * 1024 * 1024;

export async function readFile(folder: RootFolder, path: string, options: ReadFileOptions = {}): Promise<Buffer> {
  const { offset = 0, maxBytes = defaultMaxBytes } = options;
  if (options.length !== undefined) assertWholeNumber(options.length, 'length');
  const file = openFile(folder, path);
  try {
    const length = Math.min(options.length ?? Number.POSITIVE_INFINITY, Math.max(0, file.facts.size - offset));
    if (length > maxBytes) throw new SafeRootError('TOO_LARGE');
    return await file.read(offset, length);
  } finally {
    await file.close();
  }
}

export interface FolderEntry {
  readonly name: string;
  readonly kind: FileKind;
  readonly size?: number;
  readonly modifiedMs?: number;
  /** The name is not UTF-8: `name` displays it, but no path can contain it. */
  readonly unrepresentable?: true;
  /** Access is refused, so only the name is listed. */
  readonly unreadable?: true;
}

export interface FolderListing {
  readonly path: string;
  /** Sorted by name. A folder too large to be read whole gives the entries that came first. */
  readonly entries: readonly FolderEntry[];
  readonly more: boolean;
}

export interface FolderListOptions {
  /** The largest number of entries; 10,000 by default. */
  readonly limit?: number;
  /** Adds sizes and times, at the cost of one stat per entry. */
  readonly facts?: boolean;
  /** Names that are left out of the listing. */
  readonly without?: (name: string) => boolean;
}

const namesPerTick = 256;
/** Bounds the memory for names that are sorted. */
const maxNames = 100_000;

export function listFolder(folder: RootFolder, path: string, options: FolderListOptions = {}): Promise<FolderListing> {
  const limit = options.limit ?? 10_000;
  return withPathAsync(folder, path, { access: 'read' }, async (end) => {
    const node = requireNode(end);
    const entries = await readEntries(node, Math.max(limit, maxNames), options.without);
    entries.sort((one, other) => (one.name < other.name ? -1 : 1));
    const listed: FolderEntry[] = [];
    for (const entry of entries.slice(0, limit)) {
      const unreadable = folder.checkAccess?.('read', [...end.names, entry.name], entry.kind) !== undefined;
      listed.push(unreadable ? { ...entry, unreadable } : options.facts ? addFacts(node, entry) : entry);
      if (listed.length % namesPerTick === 0) await turn();
    }
    return { path: joinNames(end.names), entries: listed, more: entries.length > limit };
  });
}

/** Reads at most one entry more than the limit, to know whether there are more. */
async function readEntries(
  node: Handle,
  maxEntries: number,
  without?: (name: string) => boolean,
): Promise<FolderEntry[]> {
  const entries: FolderEntry[] = [];
  let count = 0;
  for (const { name, kind } of readNames(node)) {
    if (++count % namesPerTick === 0) await turn();
    const text = name.toString();
    if (without?.(text)) continue;
    entries.push(isUtf8(name) ? { name: text, kind } : { name: text, kind, unrepresentable: true });
    if (entries.length > maxEntries) break;
  }
  return entries;
}

/** Reads size and time by the name in the held folder. Nothing is followed, so nothing needs to be held for it. */
function addFacts(node: Handle, entry: FolderEntry): FolderEntry {
  if (entry.unrepresentable) return entry;
  const stats = lstatSync(pathAt(node, entry.name), { throwIfNoEntry: false });
  if (stats === undefined) return entry;
  // A spread takes several times as long, and there are thousands of entries.
  return { name: entry.name, kind: entry.kind, size: stats.size, modifiedMs: stats.mtimeMs };
}

/** Runs `work` on an opened file or folder and closes it. */
export async function withOpen<Opened extends { close(): void | Promise<void> }, T>(
  opening: Opened | Promise<Opened>,
  work: (opened: Opened) => Promise<T>,
): Promise<T> {
  const opened = await opening;
  try {
    return await work(opened);
  } finally {
    await opened.close();
  }
}
