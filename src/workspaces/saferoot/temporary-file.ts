import { closeSync, constants, fsyncSync, lstatSync, openSync, unlinkSync, writeSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { assertSize, type Content, fill } from './content.ts';
import { at, type Handle } from './platform/ground.ts';
import { freshName, isTemporaryName, nameIsFree } from './temporary-name.ts';

export { isTemporaryName };

export interface Writing {
  readonly mode: number;
  readonly maxBytes?: number | undefined;
  readonly sync?: boolean | undefined;
  /** Before the file gets its place: what the old one had. */
  readonly adorn?: (descriptor: number) => void;
}

/**
 * Writes a whole file beside its place, and gives `settle` its name to move it there at once. Whatever fails, the
 * file is gone afterwards.
 */
export async function writeBeside<T>(
  folder: Handle,
  content: Content,
  options: Writing,
  settle: (temporary: string) => T,
): Promise<T> {
  const name = freshName();
  const temporary = at(folder, name);
  const flags = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW;
  try {
    if (isLittle(content) && !options.sync) writeLittle(temporary, flags, content, options);
    else await write(temporary, flags, content, options);
    const result = settle(temporary);
    if (options.sync) syncFolder(folder);
    return result;
  } finally {
    removeIfThere(temporary);
    nameIsFree(name);
  }
}

async function write(path: string, flags: number, content: Content, options: Writing): Promise<void> {
  const file = await open(path, flags, options.mode & 0o777);
  try {
    await fill(file, content, options.maxBytes);
    options.adorn?.(file.fd);
    if (options.sync) await file.sync();
  } finally {
    await file.close();
  }
}

/** So much is written at once, where a way through other threads would take longer than the writing. */
const littleBytes = 65_536;

function isLittle(content: Content): content is string | Uint8Array {
  return (typeof content === 'string' || content instanceof Uint8Array) && content.length <= littleBytes;
}

function writeLittle(path: string, flags: number, content: string | Uint8Array, options: Writing): void {
  const bytes = typeof content === 'string' ? Buffer.from(content) : content;
  assertSize(bytes.length, options.maxBytes);
  const descriptor = openSync(path, flags, options.mode & 0o777);
  try {
    for (let at = 0; at < bytes.length; ) at += writeSync(descriptor, bytes, at);
    options.adorn?.(descriptor);
  } finally {
    closeSync(descriptor);
  }
}

function removeIfThere(path: string): void {
  try {
    // Most often it has been moved to its place, and to be told so by an error takes much longer than to look.
    if (lstatSync(path, { throwIfNoEntry: false }) !== undefined) unlinkSync(path);
  } catch {
    // Taken away by someone else meanwhile.
  }
}

function syncFolder(folder: Handle): void {
  const descriptor = openSync(folder.path, constants.O_RDONLY | constants.O_DIRECTORY);
  try {
    fsyncSync(descriptor);
  } catch {
    // Some file systems cannot; the file itself is whole either way.
  } finally {
    closeSync(descriptor);
  }
}
