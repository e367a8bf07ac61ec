import fc from 'fast-check';
import { expect, test } from 'vitest';
import { decodeHeaderValue, encodeHeaderValue } from '../../src/protocol/modern-envelope.ts';

const anyText = fc.oneof(
  fc.string({ unit: 'binary' }),
  fc.string({ unit: 'grapheme' }),
  fc.constantFrom('', ' ', ' a', 'a ', '=?', '=?base64?', '=?base64?YQ==?=', 'a\r\nX: b', '\0', '\x7f', 'a\tb'),
);

test('whatever is encoded can stand in a header, and comes back', () => {
  fc.assert(
    fc.property(anyText, (text) => {
      const value = encodeHeaderValue(text);
      expect(value).toMatch(/^[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?$/);
      expect(decodeHeaderValue(value)).toBe(text);
    }),
    { numRuns: 1000 },
  );
});

test('plain names stay readable', () => {
  for (const name of ['echo', 'a b', 'file:///tmp/x?y=1', 'say=?']) expect(encodeHeaderValue(name)).toBe(name);
});

test('two names never share an encoding', () => {
  fc.assert(
    fc.property(anyText, anyText, (a, b) => {
      fc.pre(a !== b);
      expect(encodeHeaderValue(a)).not.toBe(encodeHeaderValue(b));
    }),
  );
});

// UTF-8 has no bytes for half a pair; the header then cannot agree with the body, and the upstream says so.
test('half a surrogate pair comes back as the replacement character', () => {
  expect(decodeHeaderValue(encodeHeaderValue('a\ud800'))).toBe('a\ufffd');
});

test.each(['=?base64?', '=?base64?a b?=', '=?base64?gA==?=', '=?base64?YQ==', '=?utf-8?YQ==?=', '=?base64?Y=Q=?='])(
  '%s is broken',
  (value) => {
    expect(decodeHeaderValue(value)).toBeUndefined();
  },
);
