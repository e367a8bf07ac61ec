import { createHash } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, test, vi } from 'vitest';
import { computeArgumentsDigest, noArgumentsDigest } from '../../../src/context/for-tools/arguments-digest.ts';
import { digestArguments as receivedDigest } from '../../../src/public/sdk/call.ts';
import { counts } from '../../proof.ts';
import { objectText, valueText } from '../../protocol/json/json-texts.ts';

const numRuns = counts(600, 100_000);
const digest = (text: string) => computeArgumentsDigest(Buffer.from(text));
const sha256 = (text: string) => createHash('sha256').update(text).digest('hex');

/** RFC 8785 written down once more, after its text and in another way: by the code units of names, values by JSON. */
function independent(value: unknown): string {
  if (value === null || typeof value !== 'object') return JSON.stringify(Object.is(value, -0) ? 0 : value);
  if (Array.isArray(value)) return `[${value.map(independent).join()}]`;
  const names = Object.getOwnPropertyNames(value).sort((a, b) => {
    for (let i = 0; i < Math.min(a.length, b.length); i++) {
      const difference = a.charCodeAt(i) - b.charCodeAt(i);
      if (difference !== 0) return difference;
    }
    return a.length - b.length;
  });
  const memberNamed = (name: string) => Object.getOwnPropertyDescriptor(value, name)?.value as unknown;
  return `{${names.map((name) => `${JSON.stringify(name)}:${independent(memberNamed(name))}`).join()}}`;
}

/** The same value, written as another program might: names in another order, escapes, spaces, other forms of numbers. */
function respelled(value: unknown, dice: () => number): string {
  const space = () => ['', ' ', '\n', '\t\r'][dice() % 4] as string;
  const around = (text: string) => `${space()}${text}${space()}`;
  if (typeof value === 'string') return respelledString(value, dice);
  if (typeof value === 'number') return respelledNumber(value, dice);
  if (value === null || typeof value !== 'object') return String(value);
  if (Array.isArray(value)) return `[${value.map((item) => around(respelled(item, dice))).join(',')}]`;
  const entries = Object.entries(value).map(
    ([name, inner]) => `${around(respelledString(name, dice))}:${around(respelled(inner, dice))}`,
  );
  const turn = entries.length === 0 ? 0 : dice() % entries.length;
  return `{${[...entries.slice(turn), ...entries.slice(0, turn)].join(',')}}`;
}

function respelledString(text: string, dice: () => number): string {
  const units = Array.from({ length: text.length }, (_, i) => {
    const escaped = `\\u${text.charCodeAt(i).toString(16).padStart(4, '0')}`;
    return dice() % 3 === 0 ? escaped : undefined;
  });
  let out = '';
  for (let i = 0; i < text.length; i++) {
    const pair = (text.codePointAt(i) as number) > 0xffff;
    const whole = JSON.stringify(pair ? text.slice(i, i + 2) : text[i]).slice(1, -1);
    if (units[i] === undefined) out += whole;
    else out += pair ? `${units[i]}\\u${text.charCodeAt(i + 1).toString(16)}` : units[i];
    if (pair) i++;
  }
  return `"${out}"`;
}

function respelledNumber(value: number, dice: () => number): string {
  const forms = [String(value), value.toExponential(), value.toExponential().toUpperCase()];
  if (Number.isInteger(value) && Math.abs(value) < 1e15) forms.push(`${value}.0`, `${value}e0`);
  if (Number.isInteger(value) && value !== 0 && Math.abs(value) < 1e15) forms.push(`${value}0e-1`);
  return forms[dice() % forms.length] as string;
}

const wellFormed = fc.string({ unit: 'grapheme', maxLength: 6 });
const plainValue = fc.jsonValue({ stringUnit: 'grapheme', maxDepth: 3 });
const dice = fc.infiniteStream(fc.nat()).map((stream) => () => stream.next().value as number);

test.each([
  ['1e9, 1E+9, 1.0e9, 1000000000.0', '1000000000,1000000000,1000000000,1000000000'],
  ['1e-7, 1.5e300, 5e-324, -0.0, 0e999', '1e-7,1.5e+300,5e-324,0,0'],
  ['0.1234567890123456, 123456789012345600e-18, 1e22', '0.1234567890123456,0.1234567890123456,1e+22'],
])('numbers of any spelling are bound by their value: %s', (written, canonical) => {
  expect(digest(`{"a":[${written}]}`)).toBe(sha256(`{"a":[${canonical}]}`));
});

test.each(['1e999', '1e-400', '-1e309', '9007199254740993', '0.12345678901234567891', '2e-324'])(
  '%s is not kept by a double, so nothing is bound',
  (number) => {
    expect(digest(`{"a":[1, ${number}]}`)).toBeUndefined();
  },
);

test('S7: numbers with exponents are looked at without a pattern for each of them', () => {
  const look = vi.spyOn(RegExp.prototype, 'exec');
  const numbers = Array(5000).fill('1e9');
  expect(digest(`{"a":[${numbers}]}`)).toBe(sha256(`{"a":[${numbers.map(Number)}]}`));
  expect(look.mock.calls.length).toBeLessThan(10);
  look.mockRestore();
});

describe('the digest of arguments', () => {
  test('P12: is one for one value, however it is written, and the one that the receiving half computes', () => {
    fc.assert(
      fc.property(fc.dictionary(wellFormed, plainValue, { maxKeys: 5 }), dice, (value, roll) => {
        const expected = sha256(independent(value));
        expect(digest(JSON.stringify(value))).toBe(expected);
        const other = respelled(value, roll);
        expect(digest(other), other).toBe(expected);
        expect(receivedDigest(JSON.parse(other))).toBe(expected);
      }),
      { numRuns: numRuns / 4 },
    );
  });

  test('P12: of any text at all is what the receiving half computes, or there is none', () => {
    fc.assert(
      fc.property(
        fc.oneof(
          objectText.map(({ text }) => text.trim()),
          valueText,
        ),
        (text) => {
          const made = digest(text);
          if (made !== undefined) expect(made).toBe(receivedDigest(JSON.parse(text)));
        },
      ),
      { numRuns },
    );
  });

  test('is the same whether the text is already in its canonical form or not', () => {
    const simple = fc.oneof(
      fc.stringMatching(/^[ -~]{0,5}$/),
      fc.integer(),
      fc.boolean(),
      fc.constant(null),
      fc.constantFrom(0, 999_999_999_999_999, 1_000_000_000_000_000, -1),
    );
    const flat = fc.dictionary(fc.stringMatching(/^[ -~]{0,3}$/), simple, { maxKeys: 6 });
    fc.assert(
      fc.property(flat, (value) => {
        const canonical = independent(value);
        // A space keeps it from being taken as it is.
        const spaced = canonical.replace('{', '{ ');
        expect([digest(canonical), digest(spaced)]).toEqual([sha256(canonical), sha256(canonical)]);
        // Two names in the wrong order are another text of the same value, and never a form of their own.
        const names = Object.keys(value);
        const reversed = `{${names
          .sort()
          .reverse()
          .map((name) => `${JSON.stringify(name)}:${JSON.stringify(value[name])}`)
          .join()}}`;
        expect(digest(reversed)).toBe(sha256(canonical));
      }),
      { numRuns },
    );
  });

  test.each([
    ['{}', '{}'],
    ['{ }', '{}'],
    ['[]', '[]'],
    ['null', 'null'],
    ['"text"', '"text"'],
    ['{"a":-0}', '{"a":0}'],
    ['{"a":-0.0e5}', '{"a":0}'],
    ['{"a":1.0}', '{"a":1}'],
    ['{"a":1E2}', '{"a":100}'],
    ['{"a":1e21}', '{"a":1e+21}'],
    ['{"a":0.0000001}', '{"a":1e-7}'],
    ['{"a":5e-324}', '{"a":5e-324}'],
    ['{"a":1.7976931348623157e308}', '{"a":1.7976931348623157e+308}'],
    ['{"a":9007199254740991}', '{"a":9007199254740991}'],
    ['{"a":9007199254740992}', '{"a":9007199254740992}'],
    ['{"a":123456789012345.6}', '{"a":123456789012345.6}'],
    ['{"a":0.1}', '{"a":0.1}'],
    ['{"b":1,"a":2}', '{"a":2,"b":1}'],
    ['{"ab":1,"a":2}', '{"a":2,"ab":1}'],
    ['{"":1,"a":2}', '{"":1,"a":2}'],
    ['{"__proto__":{"x":1},"a":1}', '{"__proto__":{"x":1},"a":1}'],
    ['{"b":{"__proto__":null},"constructor":1}', '{"b":{"__proto__":null},"constructor":1}'],
    ['{"toJSON":"x","a":{"toJSON":1}}', '{"a":{"toJSON":1},"toJSON":"x"}'],
    ['{"a":"\\u0041\\/\\u007f\\u2028"}', '{"a":"A/\u007f\u2028"}'],
    ['{"a":"\\ud83d\\ude00"}', '{"a":"😀"}'],
    ['{"\ufeff":"\ufeff"}', '{"\ufeff":"\ufeff"}'],
    ['{"\u{1f600}":1,"\ufb33":2}', '{"\u{1f600}":1,"\ufb33":2}'],
    ['{"a":"\\\\ud800"}', '{"a":"\\\\ud800"}'],
    ['{"a":"1e400 9007199254740993 :"}', '{"a":"1e400 9007199254740993 :"}'],
  ])('of %s is that of %s', (text, canonical) => {
    expect(digest(text)).toBe(sha256(canonical));
    expect(receivedDigest(JSON.parse(text))).toBe(sha256(canonical));
  });

  test.each([
    '{"a":9007199254740993}',
    '{"a":-9007199254740993}',
    '{"a":12345678901234567890}',
    '{"a":1e400}',
    '{"a":-1E+999}',
    '{"a":1e-400}',
    '{"a":4.9e-324}',
    '{"a":0.1000000000000000055511151231257827}',
    '{"a":0.30000000000000004440892098500626}',
    '{"a":1e99999999999999999999}',
    '{"a":"\\ud800"}',
    '{"a":"\\udc00\\ud800"}',
    '{"a":"\\\\\\ud800"}',
    '{"\\uDFFF":1}',
    '{"a":1,"a":1}',
    '{"a":1,"\\u0061":2}',
    '{"x":{"a":[{"b":1,"b":1}]}}',
    '{"__proto__":1,"__proto__":2}',
  ])('of %s does not exist', (text) => {
    expect(digest(text)).toBeUndefined();
  });

  test('of no arguments is that of empty ones', () => {
    expect(noArgumentsDigest).toBe(sha256('{}'));
    expect(receivedDigest(undefined)).toBe(noArgumentsDigest);
    expect(receivedDigest(null)).not.toBe(noArgumentsDigest);
  });

  test('bears what is as deep and as long as a message may be', () => {
    const deep = `${'{"a":['.repeat(250)}${']}'.repeat(250)}`;
    expect(digest(deep)).toBe(receivedDigest(JSON.parse(deep)));
    expect(digest(`{"a":0.1${'0'.repeat(1_000_000)}1}`)).toBeUndefined();
    const long = `{"a":"${'é\\n'.repeat(500_000)}","b":[${'1,'.repeat(200_000)}1]}`;
    expect(digest(long)).toBe(receivedDigest(JSON.parse(long)));
  });
});
