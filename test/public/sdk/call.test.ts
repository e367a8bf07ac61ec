import fc from 'fast-check';
import { expect, test } from 'vitest';
import { sha256Hex, toCanonicalJson } from '../../../src/lib/json/canonical-json.ts';
import { digestArguments, toCanonicalText } from '../../../src/public/sdk/call.ts';
import { counts } from '../../proof.ts';

test('the example of RFC 8785', () => {
  const given = `{
    "numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
    "string": "\\u20ac$\\u000F\\u000aA'\\u0042\\u0022\\u005c\\\\\\"\\/",
    "literals": [null, true, false]
  }`;
  expect(toCanonicalText(JSON.parse(given))).toBe(
    '{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],"string":"€$\\u000f\\nA\'B\\"\\\\\\\\\\"/"}',
  );
});

test('names are sorted by UTF-16 code units, as the RFC has them', () => {
  const given = { '\u20ac': 1, '\r': 2, '\ufb33': 3, '1': 4, '\ud83d\ude00': 5, '\u0080': 6, '\u00f6': 7 };
  expect(toCanonicalText(given)).toBe('{"\\r":2,"1":4,"\u0080":6,"\u00f6":7,"\u20ac":1,"\ud83d\ude00":5,"\ufb33":3}');
});

test('the text equals the one that the gateway signs', () => {
  fc.assert(
    fc.property(fc.json({ maxDepth: 6 }), (text) => {
      const value = JSON.parse(text) as unknown;
      expect(toCanonicalText(value)).toBe(toCanonicalJson(value));
      expect(toCanonicalText(JSON.parse(toCanonicalText(value)))).toBe(toCanonicalText(value));
    }),
    { numRuns: counts(300, 20_000) },
  );
});

test('names that JavaScript treats specially are plain names', () => {
  const text = '{"__proto__":{"toJSON":1},"constructor":null,"toJSON":"x","valueOf":[]}';
  expect(toCanonicalText(JSON.parse(text))).toBe(text);
});

test('a value without canonical text has no digest and never matches', () => {
  const deep = JSON.parse(`${'['.repeat(514)}${']'.repeat(514)}`) as unknown;
  for (const value of [
    '\ud800',
    { '\udc00': 1 },
    Number.POSITIVE_INFINITY,
    Number.NaN,
    1n,
    () => 1,
    [undefined],
    deep,
  ]) {
    expect(digestArguments(value)).toBeUndefined();
  }
  expect(digestArguments(undefined)).toBe(sha256Hex('{}'));
});
