import { createSecretKey, randomBytes } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { keyOf, placeOf } from '../../../src/upstreams/auth/credential-target.ts';
import { keyIdOf, readSealed, seal, unseal } from '../../../src/upstreams/auth/seal.ts';

const keyFrom = (secret: Buffer) => ({ id: keyIdOf(secret), secret: createSecretKey(secret) });
const key = keyFrom(randomBytes(32));
const place = placeOf('ada', 'notes', 'env', 'NOTES_TOKEN');

function opened(storedAs: string, text: string, withKey = key): string | undefined {
  const sealed = readSealed(storedAs, text);
  return sealed && unseal(sealed, withKey);
}

describe('a credential at rest', () => {
  test('comes back for its own place, and is another text each time', () => {
    const texts = ['s3cret', 's3cret', 'ü😀'].map((value) => [value, seal(place, value, key, 1)] as const);
    for (const [value, text] of texts) {
      expect(opened(keyOf(place), text)).toBe(value);
      expect(text).not.toContain(value);
    }
    expect(texts[0]?.[1]).not.toBe(texts[1]?.[1]);
  });

  test('moved to another row, or with another name written into it, opens for nobody', () => {
    const text = seal(place, 's3cret', key, 1);
    const others = [
      placeOf('eve', 'notes', 'env', 'NOTES_TOKEN'),
      placeOf('ada', 'search', 'env', 'NOTES_TOKEN'),
      placeOf('ada', 'notes', 'env', 'OTHER'),
      placeOf('ada', 'notes', 'header', 'NOTES_TOKEN'),
    ];
    for (const other of others) {
      expect(opened(keyOf(other), text)).toBeUndefined();
      const renamed = JSON.stringify({ ...(JSON.parse(text) as object), ...other });
      expect(readSealed(keyOf(other), renamed)).toBeDefined();
      expect(opened(keyOf(other), renamed)).toBeUndefined();
    }
    const younger = JSON.stringify({ ...(JSON.parse(text) as object), setAt: 2 });
    expect(opened(keyOf(place), younger)).toBeUndefined();
  });

  test('flipped in any bit, cut short, or opened with another key, it is nothing', () => {
    const written = JSON.parse(seal(place, 's3cret', key, 1)) as { iv: string; data: string };
    for (const part of ['iv', 'data'] as const) {
      const bytes = Buffer.from(written[part], 'base64');
      for (let bit = 0; bit < bytes.length * 8; bit++) {
        const flipped = Buffer.from(bytes);
        flipped[bit >> 3] = (flipped[bit >> 3] as number) ^ (1 << (bit & 7));
        const text = JSON.stringify({ ...written, [part]: flipped.toString('base64') });
        expect(opened(keyOf(place), text)).toBeUndefined();
      }
      for (let length = 0; length < bytes.length; length++) {
        const text = JSON.stringify({ ...written, [part]: bytes.subarray(0, length).toString('base64') });
        expect(opened(keyOf(place), text)).toBeUndefined();
      }
    }
    const other = keyFrom(randomBytes(32));
    expect(opened(keyOf(place), JSON.stringify(written), other)).toBeUndefined();
    // The name of the right key does not help the wrong one.
    expect(opened(keyOf(place), JSON.stringify(written), { ...other, id: key.id })).toBeUndefined();
  });

  test('two places never have the same key in the store', () => {
    const parts = fc.tuple(
      fc.string(),
      fc.constantFrom('a', 'b', 'a-b'),
      fc.constantFrom('env', 'header'),
      fc.constantFrom('A', 'B', 'a', 'A_B'),
    );
    fc.assert(
      fc.property(parts, parts, (one, two) => {
        const [a, b] = [
          placeOf(...(one as Parameters<typeof placeOf>)),
          placeOf(...(two as Parameters<typeof placeOf>)),
        ];
        expect(keyOf(a) === keyOf(b)).toBe(JSON.stringify(a) === JSON.stringify(b));
      }),
    );
  });

  test.each(['', 'null', '[]', '{}', '{"v":1}', 'x', '{"v":2}'])('what is no credential is none: %j', (text) => {
    expect(readSealed(keyOf(place), text)).toBeUndefined();
  });
});
