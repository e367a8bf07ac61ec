/** The encoding of a text file by its byte order mark; UTF-8 without one. */
type EncodingName = 'utf-8' | 'utf-16le' | 'utf-16be' | 'utf-32le' | 'utf-32be';

export interface Encoding {
  readonly name: EncodingName;
  /** The byte order mark; empty if there is none. */
  readonly mark: Uint8Array;
  /** Bytes of a code unit. */
  readonly width: 1 | 2 | 4;
}

const plainUtf8: Encoding = { name: 'utf-8', mark: Uint8Array.of(), width: 1 };
const markedUtf8: Encoding = { name: 'utf-8', mark: Uint8Array.of(0xef, 0xbb, 0xbf), width: 1 };

/** UTF-32 comes first: its mark begins like that of UTF-16. */
const markedEncodings: readonly Encoding[] = [
  { name: 'utf-32le', mark: Uint8Array.of(0xff, 0xfe, 0, 0), width: 4 },
  { name: 'utf-32be', mark: Uint8Array.of(0, 0, 0xfe, 0xff), width: 4 },
  markedUtf8,
  { name: 'utf-16le', mark: Uint8Array.of(0xff, 0xfe), width: 2 },
  { name: 'utf-16be', mark: Uint8Array.of(0xfe, 0xff), width: 2 },
];

/** Bytes at the start of a file that are needed to tell text from binary content. */
export const headBytes = 8192;

/** Detects the encoding. Undefined for binary content: text without a mark has no zero bytes. */
export function detectEncoding(head: Uint8Array): Encoding | undefined {
  const found = markedEncodings.find(({ mark }) => mark.every((byte, i) => head[i] === byte));
  if (found !== undefined) return found;
  return head.subarray(0, headBytes).includes(0) ? undefined : plainUtf8;
}

/** Decodes bytes. Undefined if they are invalid, so that every text shown can be written back unchanged. */
export function decodeText(bytes: Uint8Array, { name }: Encoding): string | undefined {
  try {
    if (name === 'utf-32le' || name === 'utf-32be') return decodeUtf32(bytes, name === 'utf-32le');
    const swapped = name === 'utf-16be' ? swapBytes(bytes) : bytes;
    const decoder = new TextDecoder(name === 'utf-8' ? 'utf-8' : 'utf-16le', { fatal: true, ignoreBOM: true });
    return decoder.decode(swapped);
  } catch {
    return undefined;
  }
}

export function encodeText(text: string, { name, mark }: Encoding): Uint8Array {
  const body =
    name === 'utf-8'
      ? Buffer.from(text)
      : name === 'utf-16le'
        ? Buffer.from(text, 'utf16le')
        : name === 'utf-16be'
          ? swapBytes(Buffer.from(text, 'utf16le'))
          : encodeUtf32(text, name === 'utf-32le');
  return mark.length === 0 ? body : Buffer.concat([mark, body]);
}

/** Decodes a whole file without its mark; undefined for binary content. */
export function decodeFile(bytes: Uint8Array): { text: string; encoding: Encoding } | undefined {
  const encoding = detectEncoding(bytes);
  if (encoding === undefined) return undefined;
  const text = decodeText(bytes.subarray(encoding.mark.length), encoding);
  return text === undefined ? undefined : { text, encoding };
}

/** Removes the mark at the start of a text and returns an encoding that has one, so that it is written once. */
export function splitByteOrderMark(text: string, encoding: Encoding): { text: string; encoding: Encoding } {
  if (!text.startsWith('\ufeff')) return { text, encoding };
  return { text: text.slice(1), encoding: encoding.mark.length > 0 ? encoding : markedUtf8 };
}

/** Whether a text has no lone surrogate, which no encoding can write. */
export function isWellFormedText(text: string): boolean {
  return !/\p{Surrogate}/u.test(text);
}

function swapBytes(bytes: Uint8Array): Uint8Array {
  if (bytes.length % 2 !== 0) throw new RangeError('half a unit');
  return Buffer.from(bytes).swap16();
}

function decodeUtf32(bytes: Uint8Array, little: boolean): string {
  if (bytes.length % 4 !== 0) throw new RangeError('part of a unit');
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const units = Buffer.alloc(bytes.length);
  let length = 0;
  for (let at = 0; at < bytes.length; at += 4) {
    const point = view.getUint32(at, little);
    if ((point >= 0xd800 && point <= 0xdfff) || point > 0x10ffff) throw new RangeError('no character');
    if (point > 0xffff) length = units.writeUInt16LE(0xd7c0 + (point >> 10), length);
    length = units.writeUInt16LE(point > 0xffff ? 0xdc00 | (point & 0x3ff) : point, length);
  }
  return units.toString('utf16le', 0, length);
}

function encodeUtf32(text: string, little: boolean): Uint8Array {
  const bytes = new Uint8Array(text.length * 4);
  const view = new DataView(bytes.buffer);
  let length = 0;
  for (let i = 0; i < text.length; i++, length += 4) {
    const point = text.codePointAt(i) as number;
    view.setUint32(length, point, little);
    if (point > 0xffff) i++;
  }
  return bytes.subarray(0, length);
}
