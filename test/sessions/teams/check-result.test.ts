import { createRequire } from 'node:module';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { isAmbitError } from '../../../src/errors.ts';
import { type ResultSchema, readResultSchema } from '../../../src/sessions/teams/result-schema.ts';
import type { JsonValue } from '../../../src/stores/record.ts';
import { counts } from '../../proof.ts';

const check = (schema: unknown, value: JsonValue) => readResultSchema(schema).check(value);
const parse = (text: string) => JSON.parse(text) as JsonValue;

/** Undefined for the one kind of random schema that may be refused: ajv would follow its references without end. */
function readUnlessLooping(schema: unknown): ResultSchema | undefined {
  try {
    return readResultSchema(schema);
  } catch (error) {
    if (isAmbitError(error) && error.message.includes('leads back to this schema')) return undefined;
    throw error;
  }
}

describe('values', () => {
  const escaped = { $defs: { 'a/b~c%': { type: 'null' } }, $ref: '#/$defs/a~1b~0c%25' };
  test.each<[schema: JsonValue, fits: JsonValue[], fails: JsonValue[]]>([
    [true, [1, null], []],
    [false, [], [1, null]],
    [{ type: 'integer' }, [1, 1.0, -0, 1e300], [1.5, '1', null]],
    [{ type: ['number', 'null'] }, [1.5, null], ['a', {}, []]],
    [{ type: 'object' }, [{}], [[], null]],
    [{ const: { a: 1, b: [1.0] } }, [{ b: [1], a: 1 }], [{ a: 1 }, { a: 1, b: [true] }]],
    [{ enum: [0, false, '1', null] }, [0, -0, false, '1', null], [1, '', 'null', []]],
    [{ minLength: 2, maxLength: 2 }, ['ab', '😀😀', 7], ['a', '😀', 'abc']],
    [{ multipleOf: 0.1 }, [0.3, 1.1, 4.35e1, 0, 1e22], [0.25]],
    [{ multipleOf: 0.01 }, [0.07, 19.99, -4.35], [0.001, 1.005]],
    [{ multipleOf: 0.0001 }, [0.0075], [0.00751]],
    [{ multipleOf: 1e-8 }, [12391239123, 1e-7], [1e-9]],
    [{ multipleOf: 0.123456789 }, [], [1e308]],
    [{ minimum: 1, exclusiveMaximum: 2 }, [1, 1.9, '0'], [0.9, 2]],
    [{ properties: { $ref: { type: 'string' } } }, [{ $ref: 'a' }, {}], [{ $ref: 1 }]],
    [
      {
        properties: { a: true },
        patternProperties: { '^x': { type: 'null' } },
        additionalProperties: { type: 'string' },
      },
      [{ a: 1, xa: null, b: 'b' }],
      [{ xa: 1 }, { b: 1 }],
    ],
    [{ patternProperties: { a: { type: 'number' }, b: { minimum: 2 } } }, [{ ab: 2, a: 1, b: 'x' }], [{ ab: 1 }]],
    [{ prefixItems: [{ type: 'string' }], items: { type: 'number' } }, [[], ['a'], ['a', 1]], [[1], ['a', 'b']]],
    [{ prefixItems: [{}, false] }, [[1]], [[1, 2]]],
    [{ contains: { const: 1 } }, [[1], [2, 1], 'x'], [[], [2]]],
    [{ contains: false, minContains: 0 }, [[], [1]], []],
    [
      { contains: { const: 1 }, minContains: 2, maxContains: 3 },
      [
        [1, 1],
        [1, 1, 1],
      ],
      [[1], [1, 1, 1, 1]],
    ],
    [{ contains: { type: 'null' }, prefixItems: [true] }, [[null]], [[], [1]]],
    [{ minContains: 3 }, [[]], []],
    [
      { uniqueItems: true },
      [[1, true, '1', [1], { a: 1, b: 2 }]],
      [
        [1, 1.0],
        [
          { a: 1, b: 2 },
          { b: 2, a: 1 },
        ],
      ],
    ],
    [{ oneOf: [true, false, false] }, [1], []],
    [{ oneOf: [true, true] }, [], [1]],
    [{ anyOf: [{ type: 'string' }, { minimum: 2 }] }, ['a', 2], [1]],
    [{ not: { type: 'string' } }, [1], ['a']],
    [parse('{"if":{"type":"string"},"then":{"minLength":2},"else":{"minimum":2}}'), ['ab', 2], ['a', 1]],
    [parse('{"then":false,"else":false}'), [1], []],
    [{ dependentRequired: { a: ['b'] } }, [{}, { b: 1 }, { a: 1, b: 1 }], [{ a: 1 }]],
    [{ dependentSchemas: { a: { maxProperties: 1 } } }, [{ a: 1 }, { b: 1, c: 1 }], [{ a: 1, b: 1 }]],
    [{ propertyNames: { pattern: '^a' } }, [{ ab: 1 }, {}], [{ b: 1 }]],
    [{ $ref: '#/definitions/a', definitions: { a: { type: 'null' } }, maxLength: 1 }, [null], ['a']],
    [{ $ref: '#/properties/a/items', properties: { a: { items: { type: 'number' } } } }, [1], ['a']],
    [{ $ref: '#/$defs/%25', $defs: { '%': { type: 'null' } } }, [null], [1]],
    [escaped, [null], [1]],
    [{ format: 'email', title: 5, default: {}, $schema: 'x', contentSchema: { nope: 1 } }, ['no address'], []],
    [{ pattern: 'b' }, ['abc'], ['xyz']],
    [{ pattern: '^\\S+$' }, ['é', 'a'], ['a\u00a0', '\ufeff']],
    [{ pattern: '^[\\b\\cA\\x41\\u{1F600}\\uD83D\\uDE01[:d]+$' }, ['\b\u0001A😀😁[:d'], ['c']],
    [{ pattern: '^\\-\\@\\/\\_\\😀$' }, ['-@/_😀'], ['']],
  ])('%j', (schema, fits, fails) => {
    const read = readResultSchema(schema);
    for (const value of fits) expect(read.check(value), JSON.stringify(value)).toBeUndefined();
    for (const value of fails) expect(read.check(value), JSON.stringify(value)).toMatch(/^The value .*\.$/);
  });

  const person = { type: 'object', properties: { name: { type: 'string' }, tags: { items: { enum: ['a', 'b'] } } } };
  test.each<[schema: JsonValue, value: JsonValue, sentence: string]>([
    [person, 'x', 'The value must be an object.'],
    [person, { name: 1 }, 'The value at "/name" must be a string.'],
    [person, { tags: ['a', 'c'] }, 'The value at "/tags/1" must be one of "a", "b".'],
    [{ additionalProperties: false }, { 'a/b~': 1 }, 'The value at "/a~1b~0" is not allowed.'],
    [{ required: ['a'] }, {}, 'The value must have the property "a".'],
    [{ dependentRequired: { a: ['b'] } }, { a: 1 }, 'The value must have the property "b", because it has "a".'],
    [{ minItems: 2 }, [1], 'The value must have at least 2 items.'],
    [{ type: ['integer', 'null'] }, 'x', 'The value must be an integer or null.'],
    [{ uniqueItems: true }, [1, 2, 1], 'The value must not have equal items, but those at 0 and 2 are.'],
    [{ oneOf: [true, false, true] }, 1, 'The value must fit only one schema in "oneOf", but fits those at 0 and 2.'],
    [
      { anyOf: [{ type: 'null' }, person] },
      { name: 1 },
      'The value must fit one of the 2 schemas in "anyOf"; the nearest refuses it because "/name" must be a string.',
    ],
  ])('the sentence about %j', (schema, value, sentence) => {
    expect(check(schema, value)).toBe(sentence);
  });

  test('a schema is read once and for all', () => {
    const schema = { properties: { a: { type: 'string' } } };
    const read = readResultSchema(schema);
    schema.properties.a.type = 'number';
    expect(read.check({ a: 'x' })).toBeUndefined();
  });
});

describe('compared with other implementations', () => {
  interface Ajv {
    addVocabulary(vocabulary: unknown): void;
    compile(schema: unknown): (value: unknown) => boolean;
  }
  const require = createRequire(import.meta.url);
  const { default: AjvCore } = require('ajv/dist/core.js') as { default: new (options: object) => Ajv };
  const { default: vocabularies } = require('ajv/dist/vocabularies/draft2020.js') as { default: readonly unknown[] };
  // The class for 2020-12 would also follow unevaluated members. Its code for them fails on some schemas.
  const ajv = new AjvCore({ next: true, strict: false, ownProperties: true, validateSchema: false });
  for (const vocabulary of vocabularies) ajv.addVocabulary(vocabulary);

  const name = fc.constantFrom('a', 'b', 'ab', '$ref');
  const leaf = fc.constantFrom<JsonValue>(null, true, false, 0, 1, -1, 2, 3, 1.5, '', 'a', 'ab', '😀', 'b1', [], {});
  const { value } = fc.letrec<{ value: JsonValue }>((tie) => ({
    value: fc.oneof(
      { depthSize: 'small', withCrossShrink: true },
      leaf,
      fc.array(tie('value'), { maxLength: 4 }),
      fc.dictionary(name, tie('value'), { maxKeys: 3, noNullPrototype: true }),
    ),
  }));
  const count = fc.nat(3);
  const pattern = fc.constantFrom(
    'a',
    '^a',
    'b$',
    '[^a]',
    '^.$',
    '\\d',
    '^[\\w]*$',
    '\\p{L}',
    '^(?:a|b)+$',
    '^\\u0061',
  );
  const names = fc.uniqueArray(name, { maxLength: 2 });
  const type = fc.constantFrom('null', 'boolean', 'number', 'integer', 'string', 'array', 'object');
  const counted = 'minLength maxLength minItems maxItems minProperties maxProperties minContains maxContains'.split(
    ' ',
  );
  const limits = ['minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum'];
  const { schema } = fc.letrec<{ schema: JsonValue }>((tie) => {
    const some = fc.array(tie('schema'), { minLength: 1, maxLength: 3 });
    const keywords: Record<string, fc.Arbitrary<unknown>> = {
      type: fc.oneof(type, fc.uniqueArray(type, { minLength: 1, maxLength: 3 })),
      enum: fc.array(value, { minLength: 1, maxLength: 4 }),
      const: value,
      ...Object.fromEntries(counted.map((each) => [each, count])),
      ...Object.fromEntries(limits.map((each) => [each, fc.constantFrom(-1, 0, 1, 1.5, 2)])),
      multipleOf: fc.constantFrom(1, 2, 0.5),
      pattern,
      required: names,
      uniqueItems: fc.boolean(),
      dependentRequired: fc.dictionary(name, names, { maxKeys: 2, noNullPrototype: true }),
      patternProperties: fc.dictionary(pattern, tie('schema'), { maxKeys: 2, noNullPrototype: true }),
      $ref: fc.constantFrom('#', '#/$defs/x', '#/$defs/y'),
      title: fc.constant('x'),
    };
    for (const each of ['allOf', 'anyOf', 'oneOf', 'prefixItems']) keywords[each] = some;
    for (const each of ['items', 'contains', 'not', 'if', 'then', 'else', 'propertyNames', 'additionalProperties'])
      keywords[each] = tie('schema');
    for (const each of ['properties', 'dependentSchemas'])
      keywords[each] = fc.dictionary(name, tie('schema'), { maxKeys: 3, noNullPrototype: true });
    const member = fc.oneof(...Object.entries(keywords).map(([each, of]) => of.map((given) => ({ [each]: given }))));
    const object = fc.array(member, { minLength: 1, maxLength: 4 }).map((all) => {
      const { prefixItems, ...others } = Object.assign({}, ...all) as Record<string, JsonValue>;
      // With both, ajv lets an empty array pass "contains".
      return prefixItems === undefined || 'contains' in others ? others : { prefixItems, ...others };
    });
    return { schema: fc.oneof({ depthSize: 'small', maxDepth: 4 }, fc.boolean(), { arbitrary: object, weight: 6 }) };
  });
  const whole = fc
    .tuple(schema, schema, schema)
    .map(([top, x, y]) => ({ ...(typeof top === 'object' ? top : { not: top }), $defs: { x, y } }));

  test('ajv finds the same values good, whatever the schema', () => {
    let compared = 0;
    fc.assert(
      fc.property(whole, fc.array(value, { minLength: 8, maxLength: 8 }), (given, values) => {
        const read = readUnlessLooping(given);
        if (read === undefined) return;
        const foreign = ajv.compile(given);
        for (const each of values) {
          const sentence = read.check(each);
          expect([each, sentence === undefined, sentence]).toEqual([each, foreign(each), sentence]);
          compared++;
        }
      }),
      { numRuns: counts(100, 5000) },
    );
    expect(compared).toBeGreaterThan(300);
  });

  test('the expressions of JavaScript find the same texts, whatever the pattern', () => {
    const sign = fc.constantFrom(
      ...'a b ^ $ . \\s \\S \\d \\D \\w \\W \\b \\n \\t \\. \\/ \\u0061 \\x61 \\0 | é 😀'.split(' '),
    );
    const inClass = fc.constantFrom(...'a b-d . ^ \\s \\S \\d \\w \\W \\b \\] \\- é 😀 \\u{1F600} ( ) [ $'.split(' '));
    const brackets = fc
      .tuple(fc.constantFrom('[', '[^'), fc.array(inClass, { maxLength: 3 }))
      .map(([open, all]) => `${open}${all.join('')}]`);
    const atom = fc.oneof(sign, brackets, fc.constantFrom('(a|b)', '(?:a.)', '(?<n>\\s)'));
    const times = fc.constantFrom('', '', '*', '+', '?', '{1,2}');
    const text = fc.string({
      unit: fc.constantFrom(...'abcd1_.-]/[( \t\n\r\v\0\b\u00a0\u2028\ufeffé', '😀'),
      maxLength: 6,
    });
    const patterns = fc.array(fc.tuple(atom, times), { maxLength: 5 }).map((all) => all.flat().join(''));
    let compared = 0;
    fc.assert(
      fc.property(patterns, fc.array(text, { minLength: 5, maxLength: 5 }), (source, texts) => {
        let expression: RegExp;
        try {
          expression = new RegExp(source, 'u');
        } catch {
          return;
        }
        const read = readResultSchema({ pattern: source });
        for (const each of texts) expect([each, read.check(each) === undefined]).toEqual([each, expression.test(each)]);
        compared++;
      }),
      { numRuns: counts(300, 20_000) },
    );
    expect(compared).toBeGreaterThan(100);
  });
});
