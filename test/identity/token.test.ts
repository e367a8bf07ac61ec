import fc from 'fast-check';
import { expect, test } from 'vitest';
import { digestsEqual, hasValidChecksum, mintToken, parseToken, tokenDigest } from '../../src/identity/token.ts';

const id = '0123456789abcdef0123456789abcdef';

test('a token names its id, and its digest fits', () => {
  const { token, digest } = mintToken('ambs', id);
  expect(token).toMatch(/^ambs_[0-9a-f]{32}_[0-9A-Za-z]{49}$/);
  expect(parseToken(token)).toEqual({ token, kind: 'ambs', id, digest });
  expect(hasValidChecksum(token)).toBe(true);
  expect(digestsEqual(tokenDigest(token), digest)).toBe(true);
  expect(digest).not.toContain(token.slice(-20));
});

test('no two tokens are alike', () => {
  const tokens = new Set(Array.from({ length: 200 }, () => mintToken('ambs', id).token));
  expect(tokens.size).toBe(200);
});

test('a typo anywhere is found offline, or gives another digest', () => {
  const { token, digest } = mintToken('ambs', id);
  fc.assert(
    fc.property(fc.nat(token.length - 1), fc.constantFrom(...'0aZ_ é'), (at, character) => {
      const wrong = token.slice(0, at) + character + token.slice(at + 1);
      fc.pre(wrong !== token);
      expect(parseToken(wrong).id === undefined || !hasValidChecksum(wrong)).toBe(true);
      expect(digestsEqual(tokenDigest(wrong), digest)).toBe(false);
    }),
  );
});

test('what is no token is none', () => {
  fc.assert(fc.property(fc.string(), (text) => parseToken(text).id === undefined));
  for (const text of ['', 'ambs_', 'ambk_a_b', `ambs_${id}_`, `ambs_../x_${'a'.repeat(49)}`]) {
    expect(parseToken(text).id).toBeUndefined();
  }
});
