import { createHmac } from 'node:crypto';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { createContextKey, createHmacSigner } from '../../../src/context/for-tools/context-key.ts';

test("signatures are equal to those of Node's HMAC for any key and text", () => {
  const key = fc.uint8Array({ minLength: 0, maxLength: 64 });
  const text = fc.string({ unit: 'binary-ascii', maxLength: 9000 });
  // One signer is used for texts of different lengths, one after the other. Some begin like the one before.
  const starts = fc.array(text, { minLength: 1, maxLength: 2 });
  const signed = fc.array(fc.tuple(fc.nat(1), fc.option(text, { nil: undefined })), { minLength: 1, maxLength: 6 });
  fc.assert(
    fc.property(key, starts, signed, (bytes, beginnings, texts) => {
      const sign = createHmacSigner(Buffer.from(bytes));
      for (const [index, rest] of texts) {
        const start = beginnings[index % beginnings.length] as string;
        const expected = createHmac('sha256', bytes)
          .update(start + (rest ?? ''), 'latin1')
          .digest('base64url');
        expect(sign(start, rest)).toBe(expected);
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
