/**
 * What goes between Ambit and the program beside the files: the length of a head, the length of a body, the head as
 * JSON, the body as it is. Both lengths are four bytes, the larger ones first.
 */
export type Head = Readonly<Record<string, unknown>>;

export interface FrameReader {
  /** Throws for what is no frame, or for more than was expected; nothing can be read after that. */
  push(chunk: Buffer): void;
}

export interface FrameReaderOptions {
  /** The most that the body of this one may have. Throws for a head nobody waits for. */
  bodyBytes(head: Head): number;
  /** The body is nobody else's memory. */
  onFrame(head: Head, body: Buffer): void;
}

const prefixBytes = 8;
const joinedBytes = 64 * 1024;
export const headBytes = 256 * 1024;

/** In few parts: each costs the pipes on the way a turn. */
export function frameOf(head: Head, body: Uint8Array = new Uint8Array()): Uint8Array[] {
  const text = Buffer.from(JSON.stringify(head));
  const prefix = Buffer.allocUnsafe(prefixBytes);
  prefix.writeUInt32BE(text.length, 0);
  prefix.writeUInt32BE(body.length, 4);
  return body.length <= joinedBytes ? [Buffer.concat([prefix, text, body])] : [Buffer.concat([prefix, text]), body];
}

/** Holds no more than one frame, and no more memory than was allowed for it, whatever arrives. */
export function createFrameReader({ bodyBytes, onFrame }: FrameReaderOptions): FrameReader {
  let wanted = Buffer.allocUnsafe(prefixBytes);
  let filled = 0;
  let part: 'prefix' | 'head' | 'body' = 'prefix';
  let announced = 0;
  let head: Head = {};

  function expect(next: typeof part, bytes: number): void {
    part = next;
    wanted = Buffer.allocUnsafe(bytes);
    filled = 0;
  }

  function take(): void {
    if (part === 'prefix') {
      const length = wanted.readUInt32BE(0);
      announced = wanted.readUInt32BE(4);
      if (length === 0 || length > headBytes) throw new Error(`A head of ${length} bytes.`);
      expect('head', length);
    } else if (part === 'head') {
      head = asHead(wanted);
      if (announced > bodyBytes(head)) throw new Error(`A body of ${announced} bytes.`);
      expect('body', announced);
    } else {
      const body = wanted;
      expect('prefix', prefixBytes);
      onFrame(head, body);
    }
  }

  return {
    push(chunk) {
      for (let at = 0; at < chunk.length || filled === wanted.length; ) {
        const copied = chunk.copy(wanted, filled, at);
        filled += copied;
        at += copied;
        if (filled < wanted.length) return;
        take();
      }
    },
  };
}

function asHead(bytes: Buffer): Head {
  const value: unknown = JSON.parse(bytes.toString('utf8'));
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw new Error('A head is an object.');
  return value as Head;
}
