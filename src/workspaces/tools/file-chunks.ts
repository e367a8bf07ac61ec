import { createHash } from 'node:crypto';
import type { OpenedFile } from '../backends/backend.ts';

/** Files up to this size are read whole: hashed, and their lines counted. Larger ones are read as far as asked. */
export const maxWholeBytes = 16 * 1024 * 1024;

/** A multiple of the code units of every encoding. */
const chunkBytes = 256 * 1024;

/** Reads the content from an offset on, in chunks. */
export async function* readChunks(file: OpenedFile, from = 0): AsyncGenerator<Uint8Array> {
  for (let at = from; ; ) {
    const piece = await file.read(at, chunkBytes);
    if (piece.length > 0) yield piece;
    if (piece.length < chunkBytes) return;
    at += piece.length;
  }
}

/** Smaller files are buffered rather than read again. */
const smallBytes = 64 * 1024;

/** Reads a small file once, so that all further reads see the same content. */
export async function bufferIfSmall(file: OpenedFile): Promise<OpenedFile> {
  if (file.facts.bytes >= smallBytes) return file;
  const content = await file.read(0, smallBytes);
  // The file may have grown.
  if (content.length === smallBytes) return file;
  return { ...file, read: async (offset, length) => content.subarray(offset, offset + length) };
}

/** Null for a file that is too large. */
export async function hashFile(file: OpenedFile): Promise<string | null> {
  if (file.facts.bytes > maxWholeBytes) return null;
  const hash = createHash('sha256');
  for await (const piece of readChunks(file)) hash.update(piece);
  return hash.digest('hex');
}
