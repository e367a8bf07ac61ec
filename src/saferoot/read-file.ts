import { constants, createWriteStream, fstatSync } from 'node:fs';
import { chmod, copyFile, type FileHandle } from 'node:fs/promises';
import { pipeline } from 'node:stream/promises';
import { asPath } from './admit.ts';
import { factsOf, type Located } from './facts.ts';
import { assertFile, type Folder, found, walkedUntil } from './folder.ts';
import { asSafeRootError, SafeRootError } from './saferoot-error.ts';

export interface Range {
  readonly offset?: number;
  /** To the end of the file unless given. */
  readonly length?: number;
}

/** A file open for reading. It stays the same file whatever happens to its name; whoever opened it closes it. */
export interface OpenFile {
  readonly facts: Located;
  /** Fewer bytes than asked for only where the file ends. */
  read(offset: number, length: number): Promise<Buffer>;
  chunks(range?: Range & { readonly chunkBytes?: number }): AsyncGenerator<Buffer, void, undefined>;
  /** The content into a new file of our own, which nobody else can reach: sharing its blocks where the system can. */
  copyTo(target: string): Promise<void>;
  close(): Promise<void>;
}

export async function open(folder: Folder, path: string): Promise<OpenFile> {
  const { handle, inside } = await walkedUntil(folder, path, { deed: 'read' }, async (end) => {
    const node = found(end);
    assertFile(node, folder);
    return { handle: await folder.ground.reopen(node, constants.O_RDONLY), inside: end.inside };
  });
  return openFile(handle, { ...factsOf(fstatSync(handle.fd)), path: asPath(inside) }, path);
}

function openFile(handle: FileHandle, facts: Located, path: string): OpenFile {
  async function read(offset: number, length: number): Promise<Buffer> {
    assertWhole(offset, 'offset');
    assertWhole(length, 'length');
    let filled = 0;
    let bytes = Buffer.alloc(0);
    try {
      // No more memory than there is to read, whatever was asked for.
      bytes = Buffer.allocUnsafe(Math.max(0, Math.min(length, fstatSync(handle.fd).size - offset)));
      while (filled < bytes.length) {
        const { bytesRead } = await handle.read(bytes, filled, bytes.length - filled, offset + filled);
        if (bytesRead === 0) break;
        filled += bytesRead;
      }
    } catch (error) {
      throw asSafeRootError(error, path);
    }
    return bytes.subarray(0, filled);
  }

  async function* chunks({
    offset = 0,
    length = Number.POSITIVE_INFINITY,
    chunkBytes = 65_536,
  }: Range & { readonly chunkBytes?: number } = {}) {
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
    async copyTo(target) {
      if (process.platform === 'linux') {
        await copyFile(`/proc/self/fd/${handle.fd}`, target, constants.COPYFILE_EXCL | constants.COPYFILE_FICLONE);
        // It came with the permissions of the file, set-user-id among them.
        await chmod(target, 0o600);
      } else await pipeline(chunks(), createWriteStream(target, { flags: 'wx', mode: 0o600 }));
    },
    close: () => handle.close(),
  };
}

/** A negative offset would mean "go on from where you are" to the system. */
function assertWhole(value: number, name: string): void {
  if (!Number.isSafeInteger(value) || value < 0) throw new RangeError(`${name} must be a whole number, 0 or more`);
}

export interface ReadOptions extends Range {
  /** More than this is refused, not cut. */
  readonly maxBytes?: number;
}

const defaultMaxBytes = 64 * 1024 * 1024;

export async function read(folder: Folder, path: string, options: ReadOptions = {}): Promise<Buffer> {
  const { offset = 0, maxBytes = defaultMaxBytes } = options;
  if (options.length !== undefined) assertWhole(options.length, 'length');
  const file = await open(folder, path);
  try {
    const length = Math.min(options.length ?? Number.POSITIVE_INFINITY, Math.max(0, file.facts.size - offset));
    if (length > maxBytes) throw new SafeRootError('TOO_LARGE');
    return await file.read(offset, length);
  } finally {
    await file.close();
  }
}
