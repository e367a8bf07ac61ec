import { describe, expect, test } from 'vitest';
import { isAmbitError } from '../../../src/errors.ts';
import { readResultSchema } from '../../../src/sessions/teams/result-schema.ts';
import type { JsonValue } from '../../../src/stores/record.ts';
import { proof } from '../../proof.ts';

const check = (schema: unknown, value: JsonValue) => readResultSchema(schema).check(value);
const parse = (text: string) => JSON.parse(text) as JsonValue;
const range = (count: number) => Array.from({ length: count }, (_, index) => index);

/** The reason why a schema is refused, or "ok". */
function refusalOf(schema: unknown): string {
  try {
    readResultSchema(schema);
    return 'ok';
  } catch (error) {
    if (!isAmbitError(error) || error.code !== 'REQUEST_INVALID') throw error;
    return error.message;
  }
}

/** A schema of 2^30 steps: each of its definitions applies the next one twice. */
function doubling(last: JsonValue, combine: string): JsonValue {
  const twice = (index: number) => ({
    [combine]: [{ $ref: `#/$defs/${index + 1}` }, { $ref: `#/$defs/${index + 1}` }],
  });
  return {
    $ref: '#/$defs/0',
    $defs: { ...Object.fromEntries(range(30).map((index) => [index, twice(index)])), 30: last },
  };
}

function nest(depth: number, wrap: (inner: JsonValue) => JsonValue, inner: JsonValue): JsonValue {
  return range(depth).reduce((value) => wrap(value), inner);
}

describe('attacks', () => {
  const manyKeys = Object.fromEntries(range(5000).map((index) => [`k${index}`, index]));
  const manyItems = range(9000).map((a) => ({ a }));
  const letters = range(20_000)
    .map((index) => 'abcd'[(index * index + (index >> 3)) % 4])
    .join('');
  test.each([
    ['allOf, doubled', doubling({ type: 'number' }, 'allOf'), 1],
    ['anyOf, doubled', doubling({ type: 'number' }, 'anyOf'), 'x'],
    ['oneOf, doubled, with texts for errors', doubling({ required: ['\u0001'.repeat(99)] }, 'oneOf'), {}],
    ['names, doubled', doubling({ propertyNames: { maxLength: 0 } }, 'anyOf'), { ['\u0001'.repeat(99)]: 1 }],
    ['large values compared, doubled', doubling({ const: {} }, 'anyOf'), manyKeys],
    ['large values compared with many, doubled', doubling({ enum: range(4000) }, 'anyOf'), manyKeys],
    ['deep values compared, doubled', doubling({ enum: [1] }, 'anyOf'), nest(60, (a) => ({ a }), 'x'.repeat(60_000))],
    ['uniqueItems, doubled', doubling({ uniqueItems: true }, 'allOf'), manyItems],
    ['multipleOf, doubled', doubling({ multipleOf: 5e-324 }, 'allOf'), Number.MAX_VALUE],
    ['properties, doubled', doubling({ additionalProperties: true }, 'allOf'), manyKeys],
    ['sizes, doubled', doubling({ minProperties: 1 }, 'allOf'), manyKeys],
    ['lengths, doubled', doubling({ minLength: 1 }, 'allOf'), '😀'.repeat(16_000)],
    [
      'many conditions',
      { items: { dependentRequired: Object.fromEntries(range(2000).map((n) => [n, []])) } },
      manyItems,
    ],
    ['many schemas', { items: { allOf: range(4000).map(() => ({})) } }, manyItems],
    ['many patterns', { patternProperties: Object.fromEntries(range(500).map((n) => [`x${n}`, {}])) }, manyKeys],
    ['a pattern with many states', { pattern: '[ac]\\w{200}[0-9]' }, letters],
  ])('the steps of a check are limited: %s', (_, schema, value) => {
    const before = process.cpuUsage();
    expect(check(schema, value)).toMatch(/^The value cannot be checked in a reasonable time: .*"\$ref"\.$/);
    // Processor time: the machine may be busy with other test files.
    if (proof) expect(process.cpuUsage(before).user / 1000).toBeLessThan(400);
  });

  test.each(['(a+)+$', '^(a|a)*$', '^(([a-z])+.)+[A-Z]$', '(.*)(.*)(.*)(.*)[0-9]$'])(
    'the pattern %s takes linear time',
    (pattern) => {
      expect(check({ pattern }, `${'a'.repeat(30_000)}!`)).toMatch(/^The value must match the pattern/);
    },
  );

  test.each([
    'https://example.com/schema.json',
    'http://127.0.0.1/',
    'file:///etc/passwd',
    'other.json#/a',
    '/etc/passwd',
    '',
    '#anchor',
    '#%2F..%2F',
  ])('nothing is fetched or read for the reference %j', ($ref) => {
    expect(refusalOf({ $ref })).toMatch(/can only lead to a part of the same schema/);
  });

  test.each([
    [{ $ref: '#' }],
    [{ allOf: [{ $ref: '#' }] }],
    [{ anyOf: [true, { not: { $ref: '#/anyOf/1' } }] }],
    [{ if: true, else: { $ref: '#/$defs/a' }, $defs: { a: { $ref: '#/$defs/b' }, b: { $ref: '#/else' } } }],
    [{ items: { dependentSchemas: { a: { oneOf: [{ $ref: '#/items' }] } } } }],
    [{ $defs: { unused: { else: { $ref: '#/$defs/unused' } } } }],
  ])('a schema that refers to itself for the same value is refused: %j', (schema) => {
    expect(refusalOf(schema)).toMatch(/leads back to this schema without going into the value/);
  });

  test('a schema that refers to itself for parts of the value is followed only so far', () => {
    const list = {
      type: 'object',
      properties: { next: { $ref: '#' }, value: { type: 'integer' } },
      required: ['value'],
    };
    const good = nest(60, (next) => ({ value: 1, next }), { value: 2 });
    expect(check(list, good)).toBeUndefined();
    expect(check(list, { value: 1, next: { value: 'x' } })).toBe('The value at "/next/value" must be an integer.');
    const chain = Object.fromEntries(range(900).map((index) => [index, { $ref: `#/$defs/${index + 1}` }]));
    const long = { $ref: '#/$defs/0', $defs: { ...chain, 900: { items: { $ref: '#' } } } };
    expect(
      check(
        long,
        nest(60, (a) => [a], 1),
      ),
    ).toBe('The value and the schema are together nested too deeply.');
    expect(
      check(
        {},
        nest(64, (a) => [a], 1),
      ),
    ).toBeUndefined();
    expect(
      check(
        {},
        nest(65, (a) => [a], 1),
      ),
    ).toMatch(/^The value at .* is nested more than 64 levels deep\.$/);
  });

  test('a schema is limited in size and depth', () => {
    expect(refusalOf({ description: 'x'.repeat(32_750) })).toBe('ok');
    expect(refusalOf({ description: 'x'.repeat(32_751) })).toMatch(/32769 bytes as JSON, and at most 32768/);
    expect(refusalOf({ description: 'é'.repeat(16_400) })).toMatch(/at most 32768/);
    expect(refusalOf(nest(32, (not) => ({ not }), {}))).toBe('ok');
    expect(refusalOf(nest(33, (not) => ({ not }), {}))).toMatch(/nested more than 32 levels/);
    expect(refusalOf({ default: nest(33, (a) => [a], 1) })).toMatch(/nested more than 32 levels/);
    expect(refusalOf(nest(20_000, (a) => [a], 1))).toMatch(/nested|bytes/);
    const loop: Record<string, unknown> = {};
    loop['not'] = loop;
    for (const schema of [loop, { const: 1n }]) expect(refusalOf(schema)).toMatch(/not plain JSON/);
    expect(refusalOf(parse('{"enum":[1e999]}'))).toMatch(/at "#\/enum\/0": a number is too large/);
    expect(check({}, parse('[1e999]'))).toMatch(/^The value at "\/0" is too large for a number/);
  });

  test('patterns are limited together, before much is compiled', () => {
    const all = (patterns: string[]) => refusalOf({ allOf: patterns.map((pattern) => ({ pattern })) });
    expect(all(['a'.repeat(1000)])).toBe('ok');
    expect(all(['a'.repeat(1001)])).toMatch(/at most 1000 characters/);
    expect(all(range(5).map((index) => `${index}`.repeat(900)))).toMatch(/together have at most 4000/);
    expect(all(range(800).map((index) => `\\w{${index + 200}}`))).toMatch(/too many repetitions/);
    expect(all(['(?:a?){900}a{900}$'])).toMatch(/too many repetitions/);
    expect(all(['((a{1000}){1000}){1000}'])).toMatch(/cannot be used/);
    expect(all(range(1000).map(() => '\\w{200}'))).toBe('ok');
  });

  const odd = ['__proto__', 'constructor', 'toString', 'hasOwnProperty', '$ref', 'undefined', ''];
  test.each(odd)('the property name %j is like any other', (name) => {
    const key = JSON.stringify(name);
    const own = parse(`{${key}:1}`);
    expect(check({ required: [name] }, {})).toMatch(/must have the property/);
    expect(check({ required: [name] }, own)).toBeUndefined();
    expect(check(parse(`{"properties":{${key}:{"type":"string"}}}`), {})).toBeUndefined();
    expect(check(parse(`{"properties":{${key}:{"type":"string"}}}`), own)).toMatch(/must be a string/);
    expect(check(parse(`{"properties":{${key}:true},"additionalProperties":false}`), own)).toBeUndefined();
    expect(check({ properties: { a: true }, additionalProperties: false }, own)).toMatch(/is not allowed/);
    expect(check({ maxProperties: 0 }, own)).toMatch(/at most 0 properties/);
    expect(check({ propertyNames: { const: 'a' } }, own)).toMatch(/whose name must be "a"/);
    expect(check(parse(`{"const":{${key}:1}}`), {})).toBeDefined();
    expect(check(parse(`{"const":{${key}:1}}`), own)).toBeUndefined();
    expect(check({ uniqueItems: true }, [own, {}])).toBeUndefined();
    expect(check(parse(`{"dependentRequired":{${key}:["b"]}}`), {})).toBeUndefined();
    expect(check(parse(`{"dependentSchemas":{${key}:false}}`), own)).toMatch(/is not allowed/);
    const reference = `#/$defs/${encodeURIComponent(name.replaceAll('/', '~1'))}`;
    expect(check(parse(`{"$ref":${JSON.stringify(reference)},"$defs":{${key}:false}}`), 1)).toMatch(/is not allowed/);
    if (name !== '$ref') expect(refusalOf(parse(`{${key}:1}`))).toMatch(/there is no keyword/);
    expect(refusalOf({ $ref: `#/${name}` })).not.toBe('ok');
  });

  test('a sentence is short and visible, and never the whole value', () => {
    const name = '\u202e"\n~/'.repeat(400);
    const sentences = [
      check({ additionalProperties: { additionalProperties: false } }, { [name]: { [name]: 1 } }),
      check({ const: name }, `${name}x`),
      check({ enum: range(900) }, 'x'),
      check({ required: [name] }, {}),
      check({ anyOf: [{ properties: { [name]: { const: name } } }, false] }, { [name]: name.repeat(9) }),
      check({ propertyNames: { enum: [name] } }, { [name.repeat(9)]: 1 }),
      check({ pattern: '^😀{100}$' }, name),
      refusalOf({ [name]: 1 }),
      refusalOf({ $ref: `#/${name}` }),
      refusalOf({ properties: { [name]: { pattern: `(${name}` } } }),
    ];
    for (const sentence of sentences) {
      expect(sentence).toMatch(/^The (?:value|JSON Schema) [^\p{Cc}\p{Cf}\p{Surrogate}]+$/u);
      expect(sentence?.length).toBeLessThanOrEqual(sentence?.startsWith('The JSON') ? 400 : 300);
    }
  });
});

describe('schemas that are refused', () => {
  test.each([
    [{ minLenght: 3 }, 'there is no keyword "minLenght"; did you mean "minLength"'],
    [{ properties: { a: { Type: 'string' } } }, 'at "#/properties/a": there is no keyword "Type"; did you mean "type"'],
    [{ unevaluatedProperties: false }, 'use "additionalProperties"'],
    [{ unevaluatedItems: false }, 'use "items"'],
    [{ items: [{}] }, 'use "prefixItems"'],
    [{ prefixItems: [{}], additionalItems: false }, 'use "prefixItems"'],
    [{ dependencies: {} }, 'use "dependentRequired"'],
    [{ nullable: true }, '["string", "null"]'],
    [{ $id: 'x' }, 'leave it out'],
    [{ $defs: { a: { $anchor: 'x' } } }, 'leave it out'],
    [{ $dynamicRef: '#' }, '"$ref": "#/$defs/NAME"'],
    [{ type: 'text' }, '"type" must be one of'],
    [{ type: [] }, '"type" must be one of'],
    [{ type: ['string', 'string'] }, '"type" must be one of'],
    [{ type: ['toString'] }, '"type" must be one of'],
    [{ enum: [] }, 'not empty'],
    [{ enum: 'a' }, '"enum" must be a list'],
    [{ minLength: '3' }, '"minLength" must be a whole number from 0'],
    [{ maxItems: -1 }, '"maxItems" must be a whole number from 0'],
    [{ minContains: 1.5 }, '"minContains" must be a whole number from 0'],
    [{ minimum: '1' }, '"minimum" must be a number'],
    [{ exclusiveMaximum: true }, '"exclusiveMaximum" must be a number'],
    [{ multipleOf: 0 }, 'greater than 0'],
    [{ uniqueItems: 1 }, 'true or false'],
    [{ required: 'a' }, 'list names'],
    [{ required: ['a', 'a'] }, 'each once'],
    [{ required: [1] }, 'list names'],
    [{ dependentRequired: { a: 'b' } }, 'list names'],
    [{ properties: [] }, '"properties" must be an object'],
    [{ properties: { a: 1 } }, 'at "#/properties/a": a schema must be an object, true or false'],
    [{ allOf: [] }, '"allOf" must be a list that is not empty'],
    [{ anyOf: {} }, '"anyOf" must be a list'],
    [{ oneOf: [null] }, 'at "#/oneOf/0": a schema must be'],
    [{ not: 'x' }, 'at "#/not": a schema must be'],
    [{ else: { typ: 1 } }, 'at "#/else": there is no keyword "typ"'],
    [{ pattern: 1 }, '"pattern" must be a text'],
    [{ pattern: '(' }, 'missing closing )'],
    [{ pattern: '^(?=a)' }, 'lookahead and lookbehind are not supported'],
    [{ pattern: '(?<!a)b' }, 'lookahead and lookbehind are not supported'],
    [{ pattern: '(?i)a' }, 'only the groups'],
    [{ pattern: '(a)\\1' }, 'back references'],
    [{ pattern: '(?<n>a)\\k<n>' }, 'back references'],
    [{ pattern: '\\Aa\\Z' }, 'use "^" and "$"'],
    [{ pattern: '\\u12' }, 'escape'],
    [{ pattern: 'a\\' }, 'escape'],
    [{ pattern: '\\p{Letter}' }, 'write classes like \\p{L}'],
    [{ patternProperties: { '[': true } }, 'missing closing ]'],
    [{ $ref: '#/$defs/b', $defs: { a: {} } }, '"$ref" leads to no schema'],
    [{ $ref: '#/$defs', $defs: { a: {} } }, '"$ref" leads to no schema'],
    [{ $ref: '#/enum/0', enum: [{}] }, '"$ref" leads to no schema'],
    [{ $ref: '#/examples/0', examples: [{}] }, '"$ref" leads to no schema'],
    [{ $ref: '#/allOf/00', allOf: [{}] }, '"$ref" leads to no schema'],
    [{ $ref: '#/properties~1a', properties: { a: {} } }, '"$ref" leads to no schema'],
    [{ $ref: '#/$defs/%zz', $defs: { a: {} } }, '"$ref" leads to no schema'],
    [[], 'a schema must be'],
    [null, 'a schema must be'],
    ['{}', 'a schema must be'],
    [undefined, 'it is missing'],
  ])('%j', (schema, words) => {
    expect(refusalOf(schema)).toContain(words);
  });
});
