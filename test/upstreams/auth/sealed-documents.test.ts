import { createSecretKey, randomBytes } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { createTarget, credentialKey } from '../../../src/upstreams/auth/credential-target.ts';
import {
  readSealedCredential,
  sealCredential,
  sealingKeyId,
  unsealCredential,
} from '../../../src/upstreams/auth/sealed-documents.ts';

const keyFrom = (secret: Buffer) => ({ id: sealingKeyId(secret), secret: createSecretKey(secret) });
const key = keyFrom(randomBytes(32));
const target = createTarget('ada', 'notes', 'env', 'NOTES_TOKEN');

function opened(storedAs: string, text: string, withKey = key): string | undefined {
  const sealed = readSealedCredential(storedAs, text);
  return sealed && unsealCredential(sealed, withKey);
}

describe('a credential at rest', () => {
  test('opens for its own target, and is another text each time', () => {
    const texts = ['s3cret', 's3cret', 'ü😀'].map((value) => [value, sealCredential(target, value, key, 1)] as const);
    for (const [value, text] of texts) {
      expect(opened(credentialKey(target), text)).toBe(value);
      expect(text).not.toContain(value);
    }
    expect(texts[0]?.[1]).not.toBe(texts[1]?.[1]);
  });

  test('moved to another row, or with another name written into it, opens for nobody', () => {
    const text = sealCredential(target, 's3cret', key, 1);
    const others = [
      createTarget('eve', 'notes', 'env', 'NOTES_TOKEN'),
      createTarget('ada', 'search', 'env', 'NOTES_TOKEN'),
      createTarget('ada', 'notes', 'env', 'OTHER'),
      createTarget('ada', 'notes', 'header', 'NOTES_TOKEN'),
    ];
    for (const other of others) {
      expect(opened(credentialKey(other), text)).toBeUndefined();
      const renamed = JSON.stringify({ ...(JSON.parse(text) as object), ...other });
      expect(readSealedCredential(credentialKey(other), renamed)).toBeDefined();
      expect(opened(credentialKey(other), renamed)).toBeUndefined();
    }
    const younger = JSON.stringify({ ...(JSON.parse(text) as object), setAt: 2 });
    expect(opened(credentialKey(target), younger)).toBeUndefined();
  });

  test('does not open when a bit is flipped, when it is cut short, or with another key', () => {
    const written = JSON.parse(sealCredential(target, 's3cret', key, 1)) as { iv: string; data: string };
    for (const part of ['iv', 'data'] as const) {
      const bytes = Buffer.from(written[part], 'base64');
      for (let bit = 0; bit < bytes.length * 8; bit++) {
        const flipped = Buffer.from(bytes);
        flipped[bit >> 3] = (flipped[bit >> 3] as number) ^ (1 << (bit & 7));
        const text = JSON.stringify({ ...written, [part]: flipped.toString('base64') });
        expect(opened(credentialKey(target), text)).toBeUndefined();
      }
      for (let length = 0; length < bytes.length; length++) {
        const text = JSON.stringify({ ...written, [part]: bytes.subarray(0, length).toString('base64') });
        expect(opened(credentialKey(target), text)).toBeUndefined();
      }
    }
    const other = keyFrom(randomBytes(32));
    expect(opened(credentialKey(target), JSON.stringify(written), other)).toBeUndefined();
    // The name of the right key does not help the wrong one.
    expect(opened(credentialKey(target), JSON.stringify(written), { ...other, id: key.id })).toBeUndefined();
  });

  test('two targets never have the same key in the store', () => {
    const parts = fc.tuple(
      fc.string(),
      fc.constantFrom('a', 'b', 'a-b'),
      fc.constantFrom('env', 'header'),
      fc.constantFrom('A', 'B', 'a', 'A_B'),
    );
    fc.assert(
      fc.property(parts, parts, (one, two) => {
        const [a, b] = [
          createTarget(...(one as Parameters<typeof createTarget>)),
          createTarget(...(two as Parameters<typeof createTarget>)),
        ];
        expect(credentialKey(a) === credentialKey(b)).toBe(JSON.stringify(a) === JSON.stringify(b));
      }),
    );
  });

  test.each(['', 'null', '[]', '{}', '{"v":1}', 'x', '{"v":2}'])('what is no credential is none: %j', (text) => {
    expect(readSealedCredential(credentialKey(target), text)).toBeUndefined();
  });
});
