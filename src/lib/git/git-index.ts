import { constants } from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';
import { join } from 'node:path';
import { GitConfigError } from './configured-paths.ts';

interface IndexOptions {
  readonly gitFolder: string;
  /** 20, or 32 if the repository uses SHA-256. */
  readonly hashBytes: number;
  /** Called with the number of bytes read; throws if that is too much. */
  readonly spend: (bytes: number) => void;
}

const chunkBytes = 256 * 1024;
/** An entry is never longer: no system that git runs on has longer paths. */
const maxEntryBytes = 16 * 1024;
const maxSubmodules = 500;
const submodule = 0o160000;
const modes: ReadonlySet<number> = new Set([submodule, 0o040000, 0o100644, 0o100755, 0o120000]);

/**
 * Reads the submodules that the index of a repository names, as paths in the work tree. Git enters these by itself,
 * whatever repository is there. The index may be large, so it is read in chunks. Folders that a sparse index leaves out
 * contain no submodules. Throws GitConfigError if it cannot be understood.
 */
export async function readSubmodulesOfIndex(options: IndexOptions): Promise<string[]> {
  const main = await readIndexFile(join(options.gitFolder, 'index'), options);
  if (main?.shared === undefined) return main?.submodules ?? [];
  const shared = await readIndexFile(join(options.gitFolder, `sharedindex.${main.shared}`), options);
  if (shared === undefined) throw unreadableIndexError();
  return [...main.submodules, ...shared.submodules];
}

interface IndexFile {
  readonly submodules: string[];
  /** The name of the shared index that holds the other entries. */
  shared?: string;
}

async function readIndexFile(path: string, { hashBytes, spend }: IndexOptions): Promise<IndexFile | undefined> {
  const file = await openPlainFile(path);
  if (file === undefined) return undefined;
  try {
    const bytes = createByteReader(file, spend);
    const head = await bytes.take(12);
    const version = head.readUInt32BE(4);
    if (head.toString('latin1', 0, 4) !== 'DIRC' || version < 2 || version > 4) throw unreadableIndexError();
    const found: IndexFile = { submodules: [] };
    await readEntries(bytes, { version, count: head.readUInt32BE(8), hashBytes }, found);
    await readExtensions(bytes, hashBytes, found);
    return found;
  } catch (error) {
    if (error instanceof GitConfigError) throw error;
    throw unreadableIndexError(error);
  } finally {
    await file.close();
  }
}

interface Layout {
  readonly version: number;
  readonly count: number;
  readonly hashBytes: number;
}

async function readEntries(bytes: ByteReader, { version, count, hashBytes }: Layout, found: IndexFile): Promise<void> {
  let name: Buffer = Buffer.alloc(0);
  for (let left = count; left > 0; ) {
    const piece = await bytes.peek(maxEntryBytes);
    let at = 0;
    // Reads all entries that are certainly complete in this chunk.
    do {
      const entry = readEntry(piece, at, version, hashBytes, name);
      if (entry === undefined) throw unreadableIndexError();
      if (entry.mode === submodule) addSubmodule(found.submodules, entry.name);
      name = entry.name;
      at = entry.end;
      left--;
    } while (left > 0 && piece.length - at >= maxEntryBytes);
    bytes.drop(at);
  }
}

interface IndexEntry {
  readonly mode: number;
  readonly name: Buffer;
  readonly end: number;
}

/** Undefined if the chunk ends before the entry does, or if it is no entry. */
function readEntry(
  piece: Buffer,
  from: number,
  version: number,
  hashBytes: number,
  last: Buffer,
): IndexEntry | undefined {
  const flagsAt = from + 40 + hashBytes;
  if (flagsAt + 4 > piece.length) return undefined;
  const mode = piece.readUInt32BE(from + 24);
  if (!modes.has(mode)) return undefined;
  const nameAt = flagsAt + ((piece.readUInt16BE(flagsAt) & 0x4000) === 0 ? 2 : 4);
  if (version < 4) {
    const end = piece.indexOf(0, nameAt);
    if (end === -1) return undefined;
    // Padded with zeros, at least one, to a multiple of eight.
    return { mode, name: piece.subarray(nameAt, end), end: from + ((end - from + 8) & ~7) };
  }
  const { value: cut, end: restAt } = readVariableInt(piece, nameAt);
  const end = piece.indexOf(0, restAt);
  if (end === -1 || cut > last.length) return undefined;
  const name = Buffer.concat([last.subarray(0, last.length - cut), piece.subarray(restAt, end)]);
  return { mode, name, end: end + 1 };
}

function readVariableInt(piece: Buffer, from: number): { value: number; end: number } {
  let at = from;
  let byte = piece[at++] ?? 0;
  let value = byte & 127;
  while ((byte & 128) !== 0 && at - from < 5) {
    byte = piece[at++] ?? 0;
    value = (value + 1) * 128 + (byte & 127);
  }
  return { value, end: at };
}

function addSubmodule(submodules: string[], name: Buffer): void {
  const path = name.toString('utf8');
  // An empty name stands for an entry of the shared index.
  if (name.length === 0 || !Buffer.from(path).equals(name)) throw unreadableIndexError();
  if (submodules.push(path) > maxSubmodules) {
    throw new GitConfigError(`has an index with more than ${maxSubmodules} submodules`);
  }
}

async function readExtensions(bytes: ByteReader, hashBytes: number, found: IndexFile): Promise<void> {
  for (;;) {
    // The file ends with a checksum.
    if ((await bytes.peek(hashBytes + 8)).length < hashBytes + 8) return;
    const head = await bytes.take(8);
    const size = head.readUInt32BE(4);
    if (head.toString('latin1', 0, 4) !== 'link') await bytes.skipBytes(size);
    else {
      const shared = await bytes.take(hashBytes);
      if (shared.some((byte) => byte !== 0)) found.shared = shared.toString('hex');
      await bytes.skipBytes(size - hashBytes);
    }
  }
}

interface ByteReader {
  /** Returns at least this many bytes without consuming them, fewer only at the end of the file. */
  peek(count: number): Promise<Buffer>;
  drop(count: number): void;
  take(count: number): Promise<Buffer>;
  skipBytes(count: number): Promise<void>;
}

function createByteReader(file: FileHandle, spend: (bytes: number) => void): ByteReader {
  let buffered: Buffer = Buffer.alloc(0);
  let position = 0;

  async function peek(count: number): Promise<Buffer> {
    while (buffered.length < count) {
      const { bytesRead, buffer } = await file.read(Buffer.allocUnsafe(chunkBytes), 0, chunkBytes, position);
      if (bytesRead === 0) break;
      spend(bytesRead);
      position += bytesRead;
      buffered = Buffer.concat([buffered, buffer.subarray(0, bytesRead)]);
    }
    return buffered;
  }

  function drop(count: number): void {
    if (count > buffered.length) throw unreadableIndexError();
    buffered = buffered.subarray(count);
  }

  return {
    peek,
    drop,
    async take(count) {
      const taken = (await peek(count)).subarray(0, count);
      drop(count);
      return taken;
    },
    async skipBytes(count) {
      if (count < 0) throw unreadableIndexError();
      const inHand = Math.min(count, buffered.length);
      drop(inHand);
      position += count - inHand;
    },
  };
}

/** Undefined if there is no such file. */
async function openPlainFile(path: string): Promise<FileHandle | undefined> {
  let file: FileHandle;
  try {
    // A pipe, or a file that another program holds, would block for ever.
    file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT' || code === 'ENOTDIR') return undefined;
    throw unreadableIndexError(error);
  }
  if ((await file.stat()).isFile()) return file;
  await file.close();
  throw unreadableIndexError();
}

function unreadableIndexError(cause?: unknown): GitConfigError {
  return new GitConfigError('has an index that cannot be read or understood', cause);
}
