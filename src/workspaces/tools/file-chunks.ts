import { createHash } from 'node:crypto';
import type { OpenedFile } from '../backends/backend.ts';

/** Files of up to this size are looked at whole: hashed, and their lines counted. Larger ones only as far as asked. */
export const maxWholeBytes = 16 * 1024 * 1024;

/** Whole units of every encoding. */
const chunkBytes = 256 * 1024;

/** The content from an offset on, a piece at a time. */
export async function* readChunks(file: OpenedFile, from = 0): AsyncGenerator<Uint8Array> {
  for (let at = from; ; ) {
    const piece = await file.read(at, chunkBytes);
    if (piece.length > 0) yield piece;
    if (piece.length < chunkBytes) return;
    at += piece.length;
  }
}

/** Cheaper to hold than to read again for each look at it. */
const smallBytes = 64 * 1024;

/** The file itself, or all that is in it, read once: whatever is looked at then fits together. */
export async function bufferIfSmall(file: OpenedFile): Promise<OpenedFile> {
  if (file.facts.bytes >= smallBytes) return file;
  const content = await file.read(0, smallBytes);
  // It may have grown.
  if (content.length === smallBytes) return file;
  return { ...file, read: async (offset, length) => content.subarray(offset, offset + length) };
}

/** Null for a file that is too large for it. */
export async function hashFile(file: OpenedFile): Promise<string | null> {
  if (file.facts.bytes > maxWholeBytes) return null;
  const hash = createHash('sha256');
  for await (const piece of readChunks(file)) hash.update(piece);
  return hash.digest('hex');
}

/** Works on an opened file, and closes it whatever happens. */
export async function withFile<T>(
  opening: OpenedFile | Promise<OpenedFile>,
  work: (file: OpenedFile) => Promise<T>,
): Promise<T> {
  const file = await opening;
  try {
    return await work(file);
  } finally {
    await file.close();
  }
}
