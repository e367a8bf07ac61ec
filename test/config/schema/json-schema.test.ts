import { describe, expect, test } from 'vitest';
import {
  createConfigJsonSchema,
  type JsonSchema,
  listKeysAt,
  listKnownKeys,
} from '../../../src/config/schema/json-schema.ts';

const schema = createConfigJsonSchema();

function parts(part: JsonSchema): JsonSchema[] {
  const { properties, additionalProperties, items, anyOf } = part;
  const inner = [
    ...Object.values(properties ?? {}),
    ...(typeof additionalProperties === 'object' ? [additionalProperties] : []),
    ...(items === undefined ? [] : [items]),
    ...(anyOf ?? []),
  ];
  return [part, ...inner.flatMap(parts)];
}

test('says what it is, and has no address of its own', () => {
  expect(schema).toMatchObject({
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    title: 'Ambit configuration',
    type: 'object',
    required: ['version'],
    additionalProperties: false,
  });
  expect(schema).not.toHaveProperty('$id');
  expect(JSON.parse(JSON.stringify(schema))).toEqual(schema);
});

test('every key is described', () => {
  expect(
    listKnownKeys()
      .filter(({ schema: key }) => !key.description?.endsWith('.'))
      .map(({ key }) => key),
  ).toEqual([]);
});

test('every part has a type, and every pattern compiles as editors compile it', () => {
  const types = new Set(['string', 'number', 'integer', 'boolean', 'object', 'array']);
  for (const part of parts(schema)) {
    expect(part.anyOf !== undefined || types.has(part.type ?? ''), JSON.stringify(part).slice(0, 200)).toBe(true);
    for (const pattern of [part.pattern, part.propertyNames?.pattern]) {
      if (pattern !== undefined) expect(() => new RegExp(pattern, 'u')).not.toThrow();
    }
    for (const name of part.required ?? []) expect(Object.keys(part.properties ?? {})).toContain(name);
  }
});

test('every map either lists its keys and is closed, or says what its values are', () => {
  const open = parts(schema).filter(
    (part) =>
      part.type === 'object' && part.additionalProperties !== false && typeof part.additionalProperties !== 'object',
  );
  expect(open).toEqual([]);
});

test('a server has either a command or a url', () => {
  const servers = schema.properties?.['servers'];
  expect(servers?.propertyNames?.pattern).toBe('^[a-z0-9](?:[a-z0-9-]{0,38}[a-z0-9])?$');
  expect(servers?.additionalProperties).toMatchObject({ oneOf: [{ required: ['command'] }, { required: ['url'] }] });
});

describe('the keys known at a path', () => {
  test.each([
    [
      ['listen', 'tls'],
      ['cert', 'key'],
    ],
    [
      ['servers', 'any', 'push'],
      ['sampling', 'elicitation', 'roots'],
    ],
    [
      ['rules', 0],
      ['id', 'allow', 'deny', 'when'],
    ],
    [['servers', 'any', 'env'], []],
    [['constructor'], []],
    [['listen', 'nowhere', 'at', 'all'], []],
  ])('%j are %j', (path, keys) => {
    expect(listKeysAt(path)).toEqual(keys);
  });
});
