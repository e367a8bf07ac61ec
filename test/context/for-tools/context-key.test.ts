import { createHmac } from 'node:crypto';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { createContextKey, createHmacSigner } from '../../../src/context/for-tools/context-key.ts';

test("signatures are equal to those of Node's HMAC for any key and text", () => {
  const key = fc.uint8Array({ minLength: 0, maxLength: 64 });
  const texts = fc.array(fc.string({ unit: 'binary-ascii', maxLength: 5000 }), { minLength: 1, maxLength: 5 });
  fc.assert(
    fc.property(key, texts, (bytes, signed) => {
      const sign = createHmacSigner(Buffer.from(bytes));
      // One signer is used for texts of different lengths, one after the other.
      for (const text of signed) {
        expect(sign(text)).toBe(createHmac('sha256', bytes).update(text, 'latin1').digest('base64url'));
      }
    }),
  );
});

test('the key file holds the key that signs', () => {
  const { jwk, kid, header, sign } = createContextKey();
  const { k, alg } = JSON.parse(jwk) as { k: string; alg: string };
  expect(sign('text')).toBe(createHmac('sha256', Buffer.from(k, 'base64url')).update('text').digest('base64url'));
  expect(JSON.parse(Buffer.from(header, 'base64url').toString())).toEqual({ alg, typ: 'txntoken+jwt', kid });
});
