/**
 * The head of a frame between Ambit and the files program. A frame is the length of the head, the length of the body,
 * the head as JSON and the body. Both lengths are four bytes, big-endian.
 */
export type FrameHead = Readonly<Record<string, unknown>>;

export interface FrameReader {
  /** Throws for an invalid or too large frame; nothing can be read after that. */
  push(chunk: Buffer): void;
}

export interface FrameReaderOptions {
  /** Returns the largest body for a head. Throws for an unexpected head. */
  maxBodyBytes(head: FrameHead): number;
  /** The body may be kept: its memory is not reused. */
  onFrame(head: FrameHead, body: Buffer): void;
}

const prefixBytes = 8;
const maxJoinedBytes = 64 * 1024;
export const maxHeadBytes = 256 * 1024;

/** Encodes a frame in few parts, since each part costs a write to the pipe. */
export function encodeFrame(head: FrameHead, body: Uint8Array = new Uint8Array()): Uint8Array[] {
  const text = Buffer.from(JSON.stringify(head));
  const prefix = Buffer.allocUnsafe(prefixBytes);
  prefix.writeUInt32BE(text.length, 0);
  prefix.writeUInt32BE(body.length, 4);
  return body.length <= maxJoinedBytes ? [Buffer.concat([prefix, text, body])] : [Buffer.concat([prefix, text]), body];
}

/** Holds at most one frame, and no more memory than was allowed for it. */
export function createFrameReader({ maxBodyBytes, onFrame }: FrameReaderOptions): FrameReader {
  let buffer = Buffer.allocUnsafe(prefixBytes);
  let filled = 0;
  let section: 'prefix' | 'head' | 'body' = 'prefix';
  let bodyLength = 0;
  let head: FrameHead = {};

  function startSection(next: typeof section, bytes: number): void {
    section = next;
    buffer = Buffer.allocUnsafe(bytes);
    filled = 0;
  }

  function finishSection(): void {
    if (section === 'prefix') {
      const length = buffer.readUInt32BE(0);
      bodyLength = buffer.readUInt32BE(4);
      if (length === 0 || length > maxHeadBytes) throw new Error(`A head of ${length} bytes.`);
      startSection('head', length);
    } else if (section === 'head') {
      head = parseHead(buffer);
      if (bodyLength > maxBodyBytes(head)) throw new Error(`A body of ${bodyLength} bytes.`);
      startSection('body', bodyLength);
    } else {
      const body = buffer;
      startSection('prefix', prefixBytes);
      onFrame(head, body);
    }
  }

  return {
    push(chunk) {
      for (let at = 0; at < chunk.length || filled === buffer.length; ) {
        const copied = chunk.copy(buffer, filled, at);
        filled += copied;
        at += copied;
        if (filled < buffer.length) return;
        finishSection();
      }
    },
  };
}

function parseHead(bytes: Buffer): FrameHead {
  const value: unknown = JSON.parse(bytes.toString('utf8'));
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw new Error('A head is an object.');
  return value as FrameHead;
}
