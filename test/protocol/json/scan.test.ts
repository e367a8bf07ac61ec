import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  DensityError,
  findMember,
  maxDepth,
  maxKeys,
  maxValues,
  readElements,
  readRawValue,
  readShape,
  ScanError,
  scanArray,
  scanObject,
} from '../../../src/protocol/json/scan.ts';
import { counts } from '../../proof.ts';
import { mutateObjects, objectText, valueText } from './json-texts.ts';

const numRuns = counts(600, 50_000);

/** Whether JSON.parse accepts the bytes as an object in strict UTF-8. */
function canParse(bytes: Buffer): boolean {
  try {
    const text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null && !Array.isArray(value);
  } catch {
    return false;
  }
}

function canScan(bytes: Buffer): boolean {
  try {
    scanObject(bytes, { a: { a: {} }, '': {} });
    return true;
  } catch (error) {
    if (error instanceof ScanError) return false;
    throw error;
  }
}

describe('scanObject and JSON.parse', () => {
  test('every object is accepted, with the right positions of its members', () => {
    fc.assert(
      fc.property(objectText, ({ text, members }) => {
        const bytes = Buffer.from(text);
        const shape = scanObject(bytes);
        expect(shape.members.map(({ key }) => key)).toEqual(members.map(({ key }) => JSON.parse(key)));
        expect(shape.members.map((member) => readRawValue(bytes, member))).toEqual(members.map(({ value }) => value));
        for (const [index, { keyStart }] of shape.members.entries()) {
          const written = members[index]?.key as string;
          expect(bytes.toString('utf8', keyStart, keyStart + Buffer.byteLength(written))).toBe(written);
        }
        expect(bytes.toString('utf8', shape.start, shape.end)).toBe(text.trim());
      }),
      { numRuns },
    );
  });

  test('they agree on objects with a few changed bytes', () => {
    let accepted = 0;
    let refused = 0;
    fc.assert(
      fc.property(mutateObjects(objectText), (bytes) => {
        const expected = canParse(bytes);
        if (expected) accepted++;
        else refused++;
        expect(canScan(bytes)).toBe(expected);
      }),
      { numRuns: numRuns * 2 },
    );
    // Both verdicts must occur often, or the test proves little.
    expect(Math.min(accepted, refused)).toBeGreaterThan(numRuns / 20);
  });

  test('they agree on random bytes inside an object', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 12 }), (inside) => {
        const bytes = Buffer.concat([Buffer.from('{"a":'), inside, Buffer.from('}')]);
        expect(canScan(bytes)).toBe(canParse(bytes));
      }),
      { numRuns },
    );
  });

  test('other values are refused, even if JSON.parse accepts them', () => {
    fc.assert(
      fc.property(valueText, (text) => {
        expect(canScan(Buffer.from(text))).toBe(text.startsWith('{'));
      }),
      { numRuns: numRuns / 4 },
    );
  });
});

describe('edge cases of the grammar', () => {
  const values = [
    ...['1e400', '-0', '0', '-0.0', '0e0', '1E+5', '1e-5', '123456789012345678901234567890', '0.10'],
    ...['1.', '.5', '01', '-01', '-', '+1', '1e', '1e+', '0x1', '1_0', '--1', '1.e5', '00', 'NaN', 'Infinity'],
    ...['true', 'True', 'tru', 'truee', 'null', 'nul', 'nulll', 'undefined', 'false', 'fals'],
    ...['"\\ud800"', '"\\uDC00\\uD800"', '"\\u12"', '"\\u12g4"', '"\\x41"', '"\\a"', '"\\"', '"\\\\"', '"\\/"'],
    ...['"\t"', '"\n"', '"\0"', '"\x1f"', '"\x7f"', '"\u2028"', '"\u2029"', '"\ufeff"', "'a'", '"a', '""', '"\\u000'],
    ...['[]', '[,]', '[1,]', '[1,,2]', '[1 2]', '[', ']', '{}', '{,}', '{"a"}', '{"a":}', '{"a":1,}', '{a:1}', '{1:1}'],
    ...['/**/1', '1//', '\u00a01', '\u00201', '\v1', '\f1', '\ufeff1', '1}', '{"a":1}}', '', ' '],
  ];

  test.each(values)('%j as a value', (value) => {
    const bytes = Buffer.from(`{"a":${value}}`);
    expect(canScan(bytes)).toBe(canParse(bytes));
    const nested = Buffer.from(`{"b":[{"c":${value}}]}`);
    expect(canScan(nested)).toBe(canParse(nested));
  });

  test.each([
    ...['', ' ', '{}', ' {} ', '{}{}', '{} x', 'x{}', '\ufeff{}', '{}\ufeff', '{}\0', '\0{}', '{}\u00a0', '[]', '"{}"'],
    ...['{"__proto__":{"a":1}}', '{"constructor":{},"toString":{}}', '{"":1}', '{"a":1 "b":2}', '{"a" "b"}', '{'],
  ])('%j as a text', (text) => {
    expect(canScan(Buffer.from(text))).toBe(canParse(Buffer.from(text)));
  });

  test.each([
    ['a lone continuation byte', [0x80]],
    ['a cut sequence', [0xe2, 0x82]],
    ['an overlong slash', [0xc0, 0xaf]],
    ['an overlong NUL', [0xe0, 0x80, 0x80]],
    ['a surrogate', [0xed, 0xa0, 0x80]],
    ['beyond U+10FFFF', [0xf4, 0x90, 0x80, 0x80]],
    ['0xff', [0xff]],
  ])('%s is not UTF-8 and refused, in a key and in a value', (_name, odd) => {
    for (const [before, after] of [
      ['{"', '":1}'],
      ['{"a":"', '"}'],
    ] as const) {
      const bytes = Buffer.concat([Buffer.from(before), Buffer.from(odd), Buffer.from(after)]);
      expect(() => scanObject(bytes)).toThrow(/UTF-8/);
    }
  });
});

describe('nesting', () => {
  const nests = {
    objects: (levels: number) => `${'{"a":'.repeat(levels - 1)}{}${'}'.repeat(levels - 1)}`,
    arrays: (levels: number) => `{"x":${'['.repeat(levels - 1)}${']'.repeat(levels - 1)}}`,
    mixed: (levels: number) => {
      const pairs = Math.floor((levels - 1) / 2);
      const odd = (levels - 1) % 2 === 1;
      return `{"x":${'[{"a":'.repeat(pairs)}${odd ? '[1]' : '1'}${'}]'.repeat(pairs)}}`;
    },
  };

  test.each(Object.entries(nests))('accepts %s up to the limit only', (_name, nested) => {
    for (const levels of [1, 2, 3, 100, maxDepth - 1, maxDepth]) {
      expect(canScan(Buffer.from(nested(Math.max(levels, 2))))).toBe(true);
    }
    for (const levels of [maxDepth + 1, maxDepth + 2, 100_000]) {
      expect(() => scanObject(Buffer.from(nested(levels)), { a: { a: {} } })).toThrow(/too deep/);
    }
  });

  test('a plan does not change the limit', () => {
    const plan = { a: { a: { a: {} } } };
    expect(scanObject(Buffer.from(nests.objects(maxDepth)), plan).members).toHaveLength(1);
    expect(() => scanObject(Buffer.from(nests.objects(maxDepth + 1)), plan)).toThrow(/too deep/);
  });
});

describe('arrays and plans', () => {
  test('scanArray and elementsAt find every element of an array', () => {
    fc.assert(
      fc.property(fc.array(valueText, { maxLength: 8 }), (values) => {
        const text = `[ ${values.join(' ,\n')} ]`;
        expect(scanArray(Buffer.from(text), 8).map(String)).toEqual(values);
        const bytes = Buffer.from(`{"list":${text}}`);
        const list = findMember(scanObject(bytes), 'list');
        expect(readElements(bytes, list!).map((span) => readRawValue(bytes, span))).toEqual(values);
      }),
      { numRuns: numRuns / 4 },
    );
  });

  test('an array over the limit, or with text after it, is refused', () => {
    expect(() => scanArray(Buffer.from('[1,2,3]'), 2)).toThrow(ScanError);
    for (const text of ['[1] x', '[1,]', '[', '[1', '[1 2]', '{}', '', '[1]]']) {
      expect(() => scanArray(Buffer.from(text), 8)).toThrow(ScanError);
    }
  });

  test('only objects that the plan names have a shape, however the key is written', () => {
    const bytes = Buffer.from('{"p\\u0061rams":{"_meta":{"k":1},"o":{}},"x":{"_meta":{}},"params":[{}]}');
    const [params, other, again] = scanObject(bytes, { params: { _meta: {} } }).members;
    expect(findMember(params?.shape, '_meta')?.shape?.members.map(({ key }) => key)).toEqual(['k']);
    expect(findMember(params?.shape, 'o')?.shape).toBeUndefined();
    expect(other?.shape).toBeUndefined();
    expect(again?.shape).toBeUndefined();
    expect(readShape(bytes, other!)?.members.map(({ key }) => key)).toEqual(['_meta']);
    expect(readShape(bytes, again!)).toBeUndefined();
  });
});

describe('texts that would block everybody else', () => {
  const listOf = (unit: string, count: number) => Buffer.from(`{"a":[${Array(count).fill(unit).join(',')}]}`);
  const objectOf = (count: number) => Buffer.from(`{${Array(count).fill('"a":1').join(',')}}`);

  test.each(['1', '[]'])('too many values are refused: %s', (unit) => {
    expect(scanObject(listOf(unit, maxValues - 1)).members).toHaveLength(1);
    expect(() => scanObject(listOf(unit, maxValues))).toThrow(DensityError);
    // A refusal does not reduce the limit of the next text.
    expect(scanObject(listOf(unit, 1)).members).toHaveLength(1);
  });

  test('too many members of an object are refused', () => {
    expect(scanObject(objectOf(maxKeys)).members).toHaveLength(maxKeys);
    expect(() => scanObject(objectOf(maxKeys + 1))).toThrow(DensityError);
  });

  test('a single string may have any length', () => {
    const text = Buffer.from(`{"a":"${'x'.repeat(15 << 20)}"}`);
    expect(scanObject(text).end).toBe(text.length);
  });
});
