import type { FileHandle } from 'node:fs/promises';
import { SafeRootError } from './saferoot-error.ts';

export type Content = string | Uint8Array | AsyncIterable<Uint8Array>;

/** Writes content into a file that is still empty; more than allowed ends it. */
export async function fill(file: FileHandle, content: Content, maxBytes: number | undefined): Promise<void> {
  const whole = typeof content === 'string' ? Buffer.from(content) : content;
  let total = 0;
  for await (const piece of whole instanceof Uint8Array ? [whole] : whole) {
    total += piece.length;
    assertSize(total, maxBytes);
    await writeAll(file, piece);
  }
}

export function assertSize(bytes: number, maxBytes: number | undefined): void {
  if (maxBytes !== undefined && bytes > maxBytes) {
    throw new SafeRootError('TOO_LARGE', { what: 'would become larger than was allowed' });
  }
}

export async function writeAll(file: FileHandle, bytes: Uint8Array): Promise<void> {
  for (let at = 0; at < bytes.length; ) at += (await file.write(bytes, at)).bytesWritten;
}
