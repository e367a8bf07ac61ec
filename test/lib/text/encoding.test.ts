import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  decodeFile,
  detectEncoding,
  type Encoding,
  encodeText,
  isWellFormedText,
} from '../../../src/lib/text/encoding.ts';
import { scanLines } from '../../../src/lib/text/line-endings.ts';
import { detectImageType, detectMediaType } from '../../../src/lib/text/media-type.ts';
import { counts } from '../../proof.ts';

const encodings: readonly Encoding[] = [
  detectEncoding(Buffer.from('plain')),
  detectEncoding(Buffer.from('\ufeffmarked')),
  detectEncoding(Uint8Array.of(0xff, 0xfe, 0x41, 0)),
  detectEncoding(Uint8Array.of(0xfe, 0xff, 0, 0x41)),
  detectEncoding(Uint8Array.of(0xff, 0xfe, 0, 0)),
  detectEncoding(Uint8Array.of(0, 0, 0xfe, 0xff)),
].map((each) => each as Encoding);

const text = fc.string({
  unit: fc.constantFrom('a', '\n', '\r\n', 'é', '\u010a', '\u0a0d', '\ud83d\ude0a', '\ufeff', '日'),
});

describe('encodings', () => {
  test('are detected by their byte order marks', () => {
    const names = encodings.map(({ name, mark }) => `${name}${mark.length === 0 ? '' : ' marked'}`);
    expect(names).toEqual([
      'utf-8',
      'utf-8 marked',
      'utf-16le marked',
      'utf-16be marked',
      'utf-32le marked',
      'utf-32be marked',
    ]);
  });

  test('any text round-trips in each encoding', () => {
    fc.assert(
      fc.property(text, fc.constantFrom(...encodings), (given, encoding) => {
        // A text that begins with a mark counts as marked.
        fc.pre(encoding.mark.length > 0 || !given.startsWith('\ufeff'));
        expect(decodeFile(encodeText(given, encoding))).toEqual({ text: given, encoding });
      }),
      { numRuns: counts(150, 20_000) },
    );
  });

  test('binary content is not decoded', () => {
    for (const bytes of [
      [0x41, 0, 0x42],
      [0xff, 0x41],
      [0xc3, 0x28],
      [0xed, 0xa0, 0x80],
      [0xff, 0xfe, 0x41],
      [0xff, 0xfe, 0x00, 0xd8],
      [0xff, 0xfe, 0, 0, 0x00, 0xd8, 0, 0],
      [0xff, 0xfe, 0, 0, 0x00, 0x00, 0x11, 0],
      [0, 0, 0xfe, 0xff, 0x41],
    ])
      expect(decodeFile(Uint8Array.from(bytes)), String(bytes)).toBeUndefined();
    expect(isWellFormedText('a\ud83d')).toBe(false);
    expect(isWellFormedText('a😀')).toBe(true);
  });
});

test('line ends in bytes match those of the text, in each encoding and for any chunks', () => {
  fc.assert(
    fc.property(text, fc.constantFrom(...encodings), fc.integer({ min: 1, max: 5 }), (given, encoding, units) => {
      const bytes = encodeText(given, encoding);
      const seen: [number, boolean][] = [];
      const scan = scanLines(encoding, 0, (next, withReturn) => seen.push([next, withReturn]));
      for (let at = 0; at < bytes.length; at += units * encoding.width)
        scan.push(bytes.subarray(at, at + units * encoding.width));
      const expected = [...given.matchAll(/\r?\n/g)].map((found): [number, boolean] => [
        encodeText(given.slice(0, found.index + found[0].length), encoding).length,
        found[0].length === 2,
      ]);
      expect(seen).toEqual(expected);
    }),
    { numRuns: counts(150, 20_000) },
  );
});

test('media types are detected by content before names', () => {
  const png = Buffer.from('\x89PNG\r\n\x1a\n....', 'latin1');
  expect(detectImageType(png)).toBe('image/png');
  expect(detectImageType(Buffer.from('RIFF\0\0\0\0WEBPVP8 ', 'latin1'))).toBe('image/webp');
  expect(detectImageType(Buffer.from('RIFF\0\0\0\0WAVE', 'latin1'))).toBeUndefined();
  expect(detectImageType(Buffer.alloc(0))).toBeUndefined();
  expect(detectMediaType('photo.md', png, false)).toBe('image/png');
  expect(detectMediaType('a/README.MD', Buffer.from('#'), true)).toBe('text/markdown');
  expect(detectMediaType('constructor.constructor', Buffer.from('#'), true)).toBe('text/plain');
  expect(detectMediaType('x.png', Buffer.from('\0'), false)).toBe('application/octet-stream');
});
