import type { Readable } from 'node:stream';

/** Reads a stream to its end. Returns undefined when it was cut off or too large; then `stop` is called. */
export async function readBounded(stream: Readable, maxBytes: number, stop: () => void): Promise<Buffer | undefined> {
  const pieces: Buffer[] = [];
  let bytes = 0;
  try {
    for await (const piece of stream) {
      bytes += (piece as Buffer).length;
      if (bytes > maxBytes) {
        stop();
        return undefined;
      }
      pieces.push(piece as Buffer);
    }
  } catch {
    return undefined;
  }
  return Buffer.concat(pieces);
}
