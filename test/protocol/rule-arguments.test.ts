import fc from 'fast-check';
import { expect, test } from 'vitest';
import { readRuleArguments } from '../../src/protocol/rule-arguments.ts';
import { counts } from '../proof.ts';

const none: ReadonlySet<string> = new Set();

function toPlainValue(value: unknown): unknown {
  if (value instanceof Map) return Object.fromEntries([...value].map(([key, inner]) => [key, toPlainValue(inner)]));
  if (Array.isArray(value)) return value.map(toPlainValue);
  return typeof value === 'bigint' ? Number(value) : value;
}

test('reads what JSON.parse reads, with any spacing', () => {
  const object = fc.dictionary(fc.string({ unit: 'grapheme' }), fc.jsonValue({ maxDepth: 5 }));
  fc.assert(
    fc.property(object, fc.constantFrom(undefined, 1, '\t'), (value, spacing) => {
      const text = JSON.stringify(value, undefined, spacing);
      const judged = readRuleArguments(text, none);
      if (judged.kind === 'read') expect(toPlainValue(judged.value)).toEqual(JSON.parse(text));
      else expect(judged.reason).toMatch(/not valid Unicode|too large to be read exactly|__proto__/);
    }),
    { numRuns: counts(400, 50_000) },
  );
});

test('decodes escapes in names and values', () => {
  const judged = readRuleArguments(
    String.raw`{"\u0061\n\"\\":"\ud83d\ude00","":[ ],"b":{ },"c":-0,"d":1e2,"e":-1.5}`,
    none,
  );
  expect(judged).toMatchObject({ kind: 'read', values: 7 });
  if (judged.kind !== 'read') return;
  expect([...judged.value]).toEqual([
    ['a\n"\\', '😀'],
    ['', []],
    ['b', new Map()],
    ['c', 0n],
    ['d', 100],
    ['e', -1.5],
  ]);
});

test.each([
  ['{"a":1,"a":2}', none],
  [String.raw`{"a":{"b":1,"\u0062":2}}`, none],
  ['{"A":1}', new Set(['a'])],
  ['{"x":[{"ſ":1}]}', new Set(['s'])],
  ['{"K":1}', new Set(['k'])],
  ['{"n":9007199254740992}', none],
  ['{"n":-123456789012345678901234567890}', none],
  ['{"n":1e400}', none],
  [String.raw`{"\ud800":1}`, none],
  [String.raw`{"t":"\udc00x"}`, none],
  ['[]', none],
  ['"{}"', none],
])('%s is not judged', (text, names) => {
  expect(readRuleArguments(text, names as ReadonlySet<string>).kind).toBe('unsafe');
});

test('too deep or too many values are refused without a crash', () => {
  expect(readRuleArguments(`{"a":${'['.repeat(500)}${']'.repeat(500)}}`, none)).toMatchObject({ kind: 'unsafe' });
  expect(readRuleArguments(`{"a":[${'[],'.repeat(200_000)}[]]}`, none)).toMatchObject({ kind: 'unsafe' });
  expect(readRuleArguments(`{"a":"${'x'.repeat(4 * 1024 * 1024)}"}`, none)).toMatchObject({ kind: 'unsafe' });
});
