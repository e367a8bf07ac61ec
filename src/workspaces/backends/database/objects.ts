import { createHash } from 'node:crypto';
import { AmbitError } from '../../../errors.ts';
import type { Documents } from '../../../stores/documents.ts';
import { assertByteRange } from '../../saferoot/read.ts';
import { SafeRootError } from '../../saferoot/saferoot-error.ts';
import type { FoundFile, OpenedFile } from '../backend.ts';
import type { FileNode } from './tree-nodes.ts';

/**
 * Bytes in the store: a number of pieces of one operation. Operations have unique names and pieces are never changed,
 * so a piece that nothing refers to is garbage for good.
 */
export type ContentRef = readonly [operation: string, first: number, count: number];

/** Fills a document when encoded as base64. */
const pieceBytes = 49_152;
const shardCount = 256;
const maxParallel = 16;

export interface ObjectStore {
  /** The collection of the root document. */
  readonly collection: string;
  put(ref: ContentRef, content: Uint8Array): Promise<void>;
  readAll(ref: ContentRef): Promise<Buffer>;
  readPiece(ref: ContentRef, index: number): Promise<Buffer>;
  delete(ref: ContentRef): Promise<void>;
}

export const countPieces = (bytes: number): number => Math.ceil(bytes / pieceBytes);
const pieceIndexAt = (offset: number): number => Math.floor(offset / pieceBytes);
const pieceOffset = (index: number): number => index * pieceBytes;

export function createObjectStore(documents: Documents, workspaceId: string): ObjectStore {
  // Workspace names may contain characters that collection names may not.
  const collection = `files-${createHash('sha256').update(workspaceId).digest('hex').slice(0, 24)}`;

  function locatePiece([operation, first]: ContentRef, index: number): readonly [collection: string, key: string] {
    const shard = (Number.parseInt(operation.slice(0, 4), 16) + first + index) % shardCount;
    return [`${collection}-${shard.toString(16).padStart(2, '0')}`, `${operation}-${first + index}`];
  }

  async function readPiece(ref: ContentRef, index: number): Promise<Buffer> {
    const found = await documents.get(...locatePiece(ref, index));
    if (found === undefined) throw new SafeRootError('CHANGED');
    return Buffer.from(found.text, 'base64');
  }

  return {
    collection,
    readPiece,

    async put(ref, content) {
      const bytes = Buffer.from(content.buffer, content.byteOffset, content.byteLength);
      await forEachPiece(ref[2], async (index) => {
        const text = bytes.toString('base64', pieceOffset(index), Math.min(bytes.length, pieceOffset(index + 1)));
        const { outcome } = await documents.put(...locatePiece(ref, index), text);
        if (outcome === 'full') {
          throw new AmbitError('WORKSPACE_FULL', { what: 'The store has no more space for this workspace.' });
        }
      });
    },

    async readAll(ref) {
      const pieces: Buffer[] = [];
      await forEachPiece(ref[2], async (index) => {
        pieces[index] = await readPiece(ref, index);
      });
      return Buffer.concat(pieces);
    },

    async delete(ref) {
      await forEachPiece(ref[2], async (index) => void (await documents.delete(...locatePiece(ref, index))));
    },
  };
}

/** Runs some at a time: a remote store answers many as fast as one, and none should hold up others. */
async function forEachPiece(count: number, work: (index: number) => Promise<void>): Promise<void> {
  for (let from = 0; from < count; from += maxParallel) {
    const batch = Array.from({ length: Math.min(maxParallel, count - from) }, (_, index) => work(from + index));
    // All finish before a failure is thrown, so that a cleanup meets no late write.
    for (const result of await Promise.allSettled(batch)) if (result.status === 'rejected') throw result.reason;
  }
}

/** Opens a stored file. Its pieces stay for a while after it was replaced. */
export function openStoredFile(node: FileNode, facts: FoundFile, objects: ObjectStore): OpenedFile {
  let last: { readonly index: number; readonly bytes: Buffer } | undefined;

  /** Keeps the last piece, since small reads ask for it many times. */
  async function loadPiece(index: number): Promise<Buffer> {
    if (last?.index !== index) last = { index, bytes: await objects.readPiece(node.content ?? ['', 0, 0], index) };
    return last.bytes;
  }

  return {
    facts,
    async read(offset, length) {
      assertByteRange(offset, length);
      const end = Math.min(node.bytes, offset + length);
      if (offset >= end) return new Uint8Array();
      const parts: Buffer[] = [];
      for (let index = pieceIndexAt(offset); pieceOffset(index) < end; index++) {
        const piece = await loadPiece(index);
        parts.push(piece.subarray(Math.max(0, offset - pieceOffset(index)), end - pieceOffset(index)));
      }
      return Buffer.concat(parts);
    },
    async close() {
      last = undefined;
    },
  };
}
