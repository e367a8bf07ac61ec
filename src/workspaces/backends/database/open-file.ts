import type { FoundFile, OpenedFile } from '../backend.ts';
import type { FileNode } from './nodes.ts';
import { type Objects, pieceAt, pieceStart } from './objects.ts';

/** Its pieces stay for a while after it was replaced. */
export function openFile(node: FileNode, facts: FoundFile, objects: Objects): OpenedFile {
  let last: { readonly index: number; readonly bytes: Buffer } | undefined;

  /** Reading on in small parts asks for the same piece many times. */
  async function pieceOf(index: number): Promise<Buffer> {
    if (last?.index !== index) last = { index, bytes: await objects.piece(node.content ?? ['', 0, 0], index) };
    return last.bytes;
  }

  return {
    facts,
    async read(offset, length) {
      assertWhole(offset, 'offset');
      assertWhole(length, 'length');
      const end = Math.min(node.bytes, offset + length);
      if (offset >= end) return new Uint8Array();
      const parts: Buffer[] = [];
      for (let index = pieceAt(offset); pieceStart(index) < end; index++) {
        const piece = await pieceOf(index);
        parts.push(piece.subarray(Math.max(0, offset - pieceStart(index)), end - pieceStart(index)));
      }
      return Buffer.concat(parts);
    },
    async close() {
      last = undefined;
    },
  };
}

function assertWhole(value: number, name: string): void {
  if (!Number.isSafeInteger(value) || value < 0) throw new RangeError(`${name} must be a whole number, 0 or more`);
}
