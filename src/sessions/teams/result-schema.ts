import { suggestClosest } from '../../config/explain/suggest.ts';
import { AmbitError } from '../../errors.ts';
import { formatCount } from '../../lib/text/format-count.ts';
import type { JsonValue } from '../../stores/record.ts';
import {
  checkNode,
  checkValue,
  createAllCheck,
  createAnyCheck,
  createContainsCheck,
  createDependentCheck,
  createEnumCheck,
  createIfCheck,
  createItemsCheck,
  createMembersCheck,
  createMultipleCheck,
  createNamesCheck,
  createNotCheck,
  createNumberCheck,
  createPatternCheck,
  createPresenceCheck,
  createSizeCheck,
  createTypeCheck,
  createUniqueCheck,
  describePlace,
  enterPlace,
  escapeKey,
  isObject,
  type JsonPlace,
  type JsonType,
  joinChecks,
  quoteName,
  refuseAll,
  type SchemaNode,
  type SchemaPattern,
  topPlace,
  type ValueCheck,
} from './check-result.ts';
import { createSchemaPatterns, type SchemaPatterns } from './schema-patterns.ts';

/** The JSON Schema that a parent has set for the value of a child. */
export interface ResultSchema {
  /** Returns one sentence about the first part of a value that does not fit; undefined if all of it fits. */
  check(value: JsonValue): string | undefined;
}

/** A schema that is being read. */
interface SchemaReading {
  readonly patterns: SchemaPatterns;
  readonly references: { readonly from: SchemaNode; readonly to: string; readonly found: { node?: SchemaNode } }[];
}

/** One object of a schema that is being read. */
interface SchemaPart {
  readonly members: Readonly<Record<string, JsonValue>>;
  readonly node: SchemaNode;
  readonly reading: SchemaReading;
}

interface KeywordReader {
  readonly names: readonly string[];
  /** Returns the check of these keywords; undefined if they check nothing by themselves. */
  read(part: SchemaPart): ValueCheck | undefined;
}

const maxBytes = 32_768;
const maxDepth = 32;
const typeNames = ['null', 'boolean', 'number', 'integer', 'string', 'array', 'object'];

const annotations =
  '$schema $comment title description default examples format deprecated readOnly writeOnly contentEncoding contentMediaType contentSchema';

const useReference = 'leave it out, and refer to a part of this schema with "$ref": "#/$defs/NAME"';
/** Keywords that agents know from other versions of JSON Schema, or that are left out, with what to do instead. */
const refusedKeywords: ReadonlyMap<string, string> = new Map([
  ...['$id', 'id', '$anchor', '$dynamicRef', '$dynamicAnchor', '$recursiveRef', '$recursiveAnchor', '$vocabulary'].map(
    (name) => [name, useReference] as const,
  ),
  ['unevaluatedProperties', 'use "additionalProperties"'],
  ['unevaluatedItems', 'use "items"'],
  ['additionalItems', 'use "prefixItems" for the first items and "items" for all others'],
  ['dependencies', 'use "dependentRequired" or "dependentSchemas"'],
  ['nullable', 'use a list of types such as ["string", "null"]'],
]);

const numberLimits: Readonly<Record<string, readonly [(value: number, limit: number) => boolean, string]>> = {
  minimum: [(value, limit) => value >= limit, 'must be at least'],
  maximum: [(value, limit) => value <= limit, 'must be at most'],
  exclusiveMinimum: [(value, limit) => value > limit, 'must be greater than'],
  exclusiveMaximum: [(value, limit) => value < limit, 'must be less than'],
};

const sizeLimits: Readonly<Record<string, readonly [JsonType, 'least' | 'most', string, string?]>> = {
  minLength: ['string', 'least', 'character'],
  maxLength: ['string', 'most', 'character'],
  minItems: ['array', 'least', 'item'],
  maxItems: ['array', 'most', 'item'],
  minProperties: ['object', 'least', 'property', 'properties'],
  maxProperties: ['object', 'most', 'property', 'properties'],
};

/** All keywords that are checked, in the order of the checks: the first misfit is the one that is reported. */
const keywordReaders: readonly KeywordReader[] = [
  { names: ['$defs'], read: (part) => void readNodeMap(part, '$defs') },
  { names: ['definitions'], read: (part) => void readNodeMap(part, 'definitions') },
  { names: ['type'], read: readType },
  { names: ['const'], read: ({ members }) => createEnumCheck([members['const']!]) },
  { names: ['enum'], read: (part) => createEnumCheck(readList(part, 'enum')) },
  ...Object.keys(numberLimits).map((name) => ({ names: [name], read: (part: SchemaPart) => readLimit(part, name) })),
  { names: ['multipleOf'], read: readMultiple },
  ...Object.keys(sizeLimits).map((name) => ({ names: [name], read: (part: SchemaPart) => readSize(part, name) })),
  { names: ['pattern'], read: readPattern },
  { names: ['required'], read: (part) => createPresenceCheck(readNames(part, 'required', part.members['required'])) },
  { names: ['dependentRequired'], read: readDependentRequired },
  { names: ['properties', 'patternProperties', 'additionalProperties'], read: readMembers },
  { names: ['propertyNames'], read: (part) => createNamesCheck(readPart(part, 'propertyNames')!) },
  { names: ['prefixItems', 'items'], read: readItems },
  { names: ['contains', 'minContains', 'maxContains'], read: readContains },
  { names: ['uniqueItems'], read: readUnique },
  { names: ['$ref'], read: readReference },
  { names: ['allOf'], read: (part) => createAllCheck(readHere(part, 'allOf')) },
  { names: ['anyOf'], read: (part) => createAnyCheck('anyOf', readHere(part, 'anyOf')) },
  { names: ['oneOf'], read: (part) => createAnyCheck('oneOf', readHere(part, 'oneOf')) },
  { names: ['not'], read: (part) => createNotCheck(readPartHere(part, 'not')!) },
  { names: ['if', 'then', 'else'], read: readIf },
  { names: ['dependentSchemas'], read: readDependentSchemas },
];

const knownKeywords = new Set([...keywordReaders.flatMap(({ names }) => names), ...annotations.split(' ')]);

/**
 * Reads the JSON Schema (2020-12) that an agent has set for the value of another one. Whatever it cannot check is
 * refused here: a limit that is misspelled must not be lost.
 */
export function readResultSchema(schema: unknown): ResultSchema {
  const reading: SchemaReading = { patterns: createSchemaPatterns(), references: [] };
  const top = readNode(copySchema(schema), topPlace, reading);
  for (const { from, to, found } of reading.references) {
    found.node = findNode(top, to) ?? refuse(from.place, `"$ref" leads to no schema: ${quoteName(to)}`);
    from.sameValue.push(found.node);
  }
  assertNoLoop(top);
  return { check: (value) => checkValue(top, value) };
}

/** Copies a schema as the plain JSON that it is in a message, within the limits. */
function copySchema(schema: unknown): JsonValue {
  let text: string | undefined;
  try {
    text = JSON.stringify(schema);
  } catch {
    refuse(topPlace, 'it is not plain JSON, or is nested too deeply');
  }
  if (text === undefined) refuse(topPlace, 'it is missing');
  const bytes = Buffer.byteLength(text);
  if (bytes > maxBytes) refuse(topPlace, `it has ${bytes} bytes as JSON, and at most ${maxBytes} are allowed`);
  assertPlain(schema, topPlace);
  return JSON.parse(text) as JsonValue;
}

function assertPlain(value: unknown, place: JsonPlace): void {
  if (place.depth > maxDepth)
    refuse(topPlace, `it is nested more than ${maxDepth} levels deep; use "$defs" and "$ref"`);
  // JSON has no such number, and would turn it into null.
  if (typeof value === 'number' && !Number.isFinite(value)) refuse(place, 'a number is too large');
  if (typeof value !== 'object' || value === null) return;
  for (const [key, inner] of Object.entries(value)) assertPlain(inner, enterPlace(place, key));
}

function readNode(schema: JsonValue, place: JsonPlace, reading: SchemaReading): SchemaNode {
  const node: SchemaNode = { place, checks: [], parts: new Map(), sameValue: [] };
  if (schema === false) node.checks.push(refuseAll);
  if (typeof schema === 'boolean') return node;
  if (!isObject(schema)) refuse(place, 'a schema must be an object, true or false');
  for (const name of Object.keys(schema)) assertKnown(name, place);
  const part = { members: schema, node, reading };
  for (const { names, read } of keywordReaders) {
    if (!names.some((name) => Object.hasOwn(schema, name))) continue;
    const check = read(part);
    if (check !== undefined) node.checks.push(check);
  }
  return node;
}

function assertKnown(name: string, place: JsonPlace): void {
  if (knownKeywords.has(name)) return;
  const advice = refusedKeywords.get(name);
  if (advice !== undefined) refuse(place, `the keyword "${name}" is not supported; ${advice}`);
  const meant = suggestClosest(name, [...knownKeywords]).replace(/\?$/, '');
  refuse(place, `there is no keyword ${quoteName(name)}${meant}`);
}

function readType({ members, node }: SchemaPart): ValueCheck {
  const types = typeof members['type'] === 'string' ? [members['type']] : members['type'];
  const isGood = Array.isArray(types) && types.length > 0 && new Set(types).size === types.length;
  if (isGood && types.every((type) => typeNames.includes(type as string)))
    return createTypeCheck(new Set(types as string[]));
  refuse(node.place, `"type" must be one of ${typeNames.join(', ')}, or a list of different ones`);
}

function readLimit({ members, node }: SchemaPart, name: string): ValueCheck {
  const [fits, words] = numberLimits[name]!;
  const limit = members[name];
  if (typeof limit !== 'number') refuse(node.place, `"${name}" must be a number`);
  return createNumberCheck((value) => fits(value, limit), `${words} ${limit}`);
}

function readMultiple({ members, node }: SchemaPart): ValueCheck {
  const divisor = members['multipleOf'];
  if (typeof divisor === 'number' && divisor > 0) return createMultipleCheck(divisor);
  refuse(node.place, '"multipleOf" must be a number greater than 0');
}

function readSize(part: SchemaPart, name: string): ValueCheck {
  const [type, bound, unit, plural] = sizeLimits[name]!;
  const limit = readCount(part, name)!;
  const fits = bound === 'least' ? (size: number) => size >= limit : (size: number) => size <= limit;
  return createSizeCheck(type, fits, `must have at ${bound} ${formatCount(limit, unit, plural)}`);
}

function readCount({ members, node }: SchemaPart, name: string): number | undefined {
  const count = Object.hasOwn(members, name) ? members[name] : undefined;
  if (count === undefined || (Number.isSafeInteger(count) && (count as number) >= 0))
    return count as number | undefined;
  refuse(node.place, `"${name}" must be a whole number from 0`);
}

function readPattern(part: SchemaPart): ValueCheck {
  const source = part.members['pattern'];
  if (typeof source !== 'string') refuse(part.node.place, '"pattern" must be a text');
  return createPatternCheck(compilePattern(part, source), source);
}

function compilePattern({ node, reading }: SchemaPart, source: string): SchemaPattern {
  const pattern = reading.patterns.compile(source);
  if ('problem' in pattern) refuse(node.place, `the pattern ${quoteName(source)} cannot be used: ${pattern.problem}`);
  return pattern;
}

function readDependentRequired(part: SchemaPart): ValueCheck {
  const checks = Object.entries(readObject(part, 'dependentRequired')).map(([name, names]) =>
    createPresenceCheck(readNames(part, 'dependentRequired', names), name),
  );
  return joinChecks(checks);
}

function readMembers(part: SchemaPart): ValueCheck {
  const patterns = [...readNodeMap(part, 'patternProperties')].map(([source, node]) => ({
    pattern: compilePattern(part, source),
    node,
  }));
  const others = readPart(part, 'additionalProperties');
  return createMembersCheck({ named: readNodeMap(part, 'properties'), patterns, others });
}

function readItems(part: SchemaPart): ValueCheck {
  if (Array.isArray(part.members['items'])) {
    refuse(part.node.place, '"items" is one schema for all items; use "prefixItems" for a list of schemas');
  }
  const first = Object.hasOwn(part.members, 'prefixItems') ? readNodes(part, 'prefixItems') : [];
  return createItemsCheck(first, readPart(part, 'items'));
}

function readContains(part: SchemaPart): ValueCheck | undefined {
  const [min, max] = [readCount(part, 'minContains'), readCount(part, 'maxContains')];
  const node = readPart(part, 'contains');
  return node && createContainsCheck(node, min ?? 1, max ?? Number.POSITIVE_INFINITY);
}

function readUnique({ members, node }: SchemaPart): ValueCheck | undefined {
  const isUnique = members['uniqueItems'];
  if (typeof isUnique !== 'boolean') refuse(node.place, '"uniqueItems" must be true or false');
  return isUnique ? createUniqueCheck() : undefined;
}

function readReference({ members, node, reading }: SchemaPart): ValueCheck {
  const to = members['$ref'];
  if (typeof to !== 'string' || !/^#(?:\/|$)/.test(to)) {
    refuse(node.place, '"$ref" can only lead to a part of the same schema, such as "#/$defs/NAME" or "#"');
  }
  const found: { node?: SchemaNode } = {};
  reading.references.push({ from: node, to, found });
  return (value, place, budget) => checkNode(found.node!, value, place, budget);
}

function readIf(part: SchemaPart): ValueCheck | undefined {
  const [condition, holds, fails] = ['if', 'then', 'else'].map((name) => readPartHere(part, name));
  return condition && createIfCheck(condition, holds, fails);
}

function readDependentSchemas(part: SchemaPart): ValueCheck {
  const nodes = [...readNodeMap(part, 'dependentSchemas')];
  part.node.sameValue.push(...nodes.map(([, node]) => node));
  return joinChecks(nodes.map(([name, node]) => createDependentCheck(name, node)));
}

/** Reads the schema of a keyword, if it is there. */
function readPart({ members, node, reading }: SchemaPart, name: string): SchemaNode | undefined {
  if (!Object.hasOwn(members, name)) return undefined;
  const read = readNode(members[name]!, enterPlace(node.place, name), reading);
  node.parts.set(name, read);
  return read;
}

function readPartHere(part: SchemaPart, name: string): SchemaNode | undefined {
  const read = readPart(part, name);
  if (read !== undefined) part.node.sameValue.push(read);
  return read;
}

function readNodes(part: SchemaPart, name: string): SchemaNode[] {
  const { node, reading } = part;
  return readList(part, name).map((schema, index) => {
    const read = readNode(schema, enterPlace(enterPlace(node.place, name), index), reading);
    node.parts.set(`${name}/${index}`, read);
    return read;
  });
}

function readHere(part: SchemaPart, name: string): SchemaNode[] {
  const nodes = readNodes(part, name);
  part.node.sameValue.push(...nodes);
  return nodes;
}

function readNodeMap(part: SchemaPart, name: string): Map<string, SchemaNode> {
  const nodes = new Map<string, SchemaNode>();
  if (!Object.hasOwn(part.members, name)) return nodes;
  const { node, reading } = part;
  for (const [key, schema] of Object.entries(readObject(part, name))) {
    const read = readNode(schema, enterPlace(enterPlace(node.place, name), key), reading);
    node.parts.set(`${name}/${escapeKey(key)}`, read);
    nodes.set(key, read);
  }
  return nodes;
}

function readObject({ members, node }: SchemaPart, name: string): { [key: string]: JsonValue } {
  const value = members[name];
  return isObject(value) ? value : refuse(node.place, `"${name}" must be an object`);
}

function readList({ members, node }: SchemaPart, name: string): JsonValue[] {
  const list = members[name];
  return Array.isArray(list) && list.length > 0
    ? list
    : refuse(node.place, `"${name}" must be a list that is not empty`);
}

function readNames({ node }: SchemaPart, keyword: string, names: JsonValue | undefined): string[] {
  const list = Array.isArray(names) && names.every((name) => typeof name === 'string') ? names : undefined;
  if (list !== undefined && new Set(list).size === list.length) return list;
  refuse(node.place, `"${keyword}" must list names of properties, each once`);
}

/** Finds a schema by a JSON pointer such as `#/$defs/a`. A pointer to anything else in the schema finds nothing. */
function findNode(top: SchemaNode, pointer: string): SchemaNode | undefined {
  const keys = decodeFragment(pointer.slice(1)).split('/').slice(1);
  let node: SchemaNode | undefined = top;
  while (node !== undefined && keys.length > 0) {
    const single: SchemaNode | undefined = node.parts.get(keys[0]!);
    node = single ?? node.parts.get(keys.slice(0, 2).join('/'));
    keys.splice(0, single === undefined ? 2 : 1);
  }
  return node;
}

function decodeFragment(fragment: string): string {
  try {
    return decodeURIComponent(fragment);
  } catch {
    return fragment;
  }
}

/** Refuses a schema that refers to itself for the same value: it would never be decided. */
function assertNoLoop(top: SchemaNode): void {
  const open = new Set<SchemaNode>();
  const done = new Set<SchemaNode>();
  function visit(node: SchemaNode): void {
    if (done.has(node)) return;
    if (open.has(node)) refuse(node.place, '"$ref" leads back to this schema without going into the value');
    open.add(node);
    node.sameValue.forEach(visit);
    open.delete(node);
    done.add(node);
  }
  function visitAll(node: SchemaNode): void {
    visit(node);
    node.parts.forEach(visitAll);
  }
  visitAll(top);
}

function refuse(place: JsonPlace, why: string): never {
  throw new AmbitError('REQUEST_INVALID', {
    what: `The JSON Schema is not valid at ${describePlace(place, '#')}: ${why}.`,
    hint: 'Correct the schema. It can use the keywords of JSON Schema 2020-12 that check values, and "$ref" within itself.',
  });
}
