import fc from 'fast-check';
import '../../random-seed.ts';

interface JsonSchema {
  readonly $ref?: string;
  readonly type?: string | readonly string[];
  readonly enum?: readonly unknown[];
  readonly const?: unknown;
  readonly anyOf?: readonly JsonSchema[];
  readonly oneOf?: readonly JsonSchema[];
  readonly allOf?: readonly JsonSchema[];
  readonly properties?: Readonly<Record<string, JsonSchema>>;
  readonly required?: readonly string[];
  readonly additionalProperties?: boolean | JsonSchema;
  readonly items?: JsonSchema;
  readonly pattern?: string;
  readonly format?: string;
  readonly minimum?: number;
  readonly maximum?: number;
}

export interface OpenApi {
  readonly paths: Readonly<Record<string, Readonly<Record<string, DescribedOperation>>>>;
  readonly components: { readonly schemas: Readonly<Record<string, JsonSchema>> };
}

interface DescribedOperation {
  readonly 'x-ambit-role': string;
  readonly parameters?: readonly { readonly name: string; readonly in: string; readonly schema: JsonSchema }[];
  readonly requestBody?: { readonly content: { readonly 'application/json': { readonly schema: JsonSchema } } };
}

export interface SentRequest {
  readonly method: string;
  readonly path: string;
  readonly body: string | undefined;
}

/** An operation of the OpenAPI document, with random requests for it. */
export interface Operation {
  /** Such as `GET /api/v1/sessions`. */
  readonly name: string;
  readonly role: string;
  /** Requests as the schemas of the operation describe them. */
  readonly fitting: fc.Arbitrary<SentRequest>;
  /** Fitting requests, and requests in which something is wrong. */
  readonly requests: fc.Arbitrary<SentRequest>;
}

const wrongTexts = [
  '',
  ' ',
  '\0',
  '\ud800',
  '\u202e',
  '../..',
  "'; DROP TABLE session; --",
  '"%_*',
  '__proto__',
  'constructor',
  'a'.repeat(10_000),
  '1e999',
  '-1',
  '[{',
  'user:',
  'task#',
  '\n\r\x1b[2J',
];
const wrongValues: readonly unknown[] = [
  null,
  true,
  -1,
  0.5,
  1e308,
  2 ** 53,
  [],
  [null],
  {},
  { toString: 1 },
  { constructor: {} },
];
const wrongBodies = [
  '{',
  '',
  'null',
  '[]',
  '"text"',
  '\u0000',
  '{"a":1}',
  '{"__proto__":{"role":"admin"}}',
  `{"name":${'['.repeat(100_000)}${']'.repeat(100_000)}}`,
];
const wrongSegments = ['%ff', '%00', '%', '%2e%2e%2fx', '%2F', '..%5c', 'a'.repeat(5000), '%F0%9F%98%80', '%20'];

/** Operations that read come first, those that remove come last. */
const methodOrder = ['GET', 'POST', 'PATCH', 'DELETE'];

/**
 * Texts that mean something, by the name of the member that takes them; for the id in a path, by the word before it. A
 * request with random texts only would be refused before it gets far.
 */
export type Vocabulary = Readonly<Record<string, readonly string[]>>;

/** Lists the operations of an OpenAPI document. */
export function listOperations(api: OpenApi, vocabulary: Vocabulary): Operation[] {
  const described = Object.entries(api.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ method: method.toUpperCase(), path, operation })),
  );
  described.sort((one, other) => methodOrder.indexOf(one.method) - methodOrder.indexOf(other.method));
  return described.map((each) => ({
    name: `${each.method} ${each.path}`,
    role: each.operation['x-ambit-role'],
    fitting: createRequests(each, createValues(api, vocabulary, false), vocabulary, false),
    requests: fc.oneof(
      createRequests(each, createValues(api, vocabulary, false), vocabulary, false),
      createRequests(each, createValues(api, vocabulary, true), vocabulary, true),
    ),
  }));
}

/** Node itself refuses longer requests, with an answer that has no body. */
const maxAddressLength = 15_000;

type CreateValue = (schema: JsonSchema, name: string) => fc.Arbitrary<unknown>;

interface AddressedOperation {
  readonly method: string;
  readonly path: string;
  readonly operation: DescribedOperation;
}

function createRequests(
  { method, path, operation }: AddressedOperation,
  createValue: CreateValue,
  vocabulary: Vocabulary,
  isWrong: boolean,
): fc.Arbitrary<SentRequest> {
  const { parameters = [], requestBody } = operation;
  const names = chooseText(vocabulary, /(\w+)\/\{id\}/.exec(path)?.[1] ?? '').map(encodeURIComponent);
  const id = isWrong ? mix(names, fc.constantFrom(...wrongSegments)) : names;
  const queries = parameters.filter((parameter) => parameter.in === 'query');
  const query = fc.record(Object.fromEntries(queries.map(({ name, schema }) => [name, createValue(schema, name)])), {
    requiredKeys: [],
  });
  const json = requestBody?.content['application/json'].schema;
  const fittingBody =
    json === undefined ? fc.constant(undefined) : createValue(json, 'body').map((it) => JSON.stringify(it));
  const body = isWrong && method !== 'GET' ? mix(fittingBody, fc.constantFrom(...wrongBodies)) : fittingBody;
  const requests = fc.record({ id, query, body }).map((parts) => {
    const write = (value: unknown) => (typeof value === 'string' ? value : JSON.stringify(value));
    const search = new URLSearchParams(
      Object.entries(parts.query).map(([name, value]): [string, string] => [name, write(value)]),
    );
    return { method, path: `${path.replace('{id}', parts.id)}?${search}`, body: parts.body };
  });
  return requests.filter(({ path: address }) => address.length <= maxAddressLength);
}

/** Takes most values from the first. */
function mix<T>(first: fc.Arbitrary<T>, second: fc.Arbitrary<T>): fc.Arbitrary<T> {
  return fc.oneof({ weight: 8, arbitrary: first }, { weight: 1, arbitrary: second });
}

function writeHoursAgo(hours: number): string {
  return new Date(Date.now() - hours * 3_600_000).toISOString();
}

function chooseText(vocabulary: Vocabulary, name: string): fc.Arbitrary<string> {
  return fc.constantFrom(...(vocabulary[name] ?? Object.values(vocabulary).flat()));
}

/** Makes random values of a schema. With `isWrong`, any part may also be something else. */
function createValues({ components }: OpenApi, vocabulary: Vocabulary, isWrong: boolean): CreateValue {
  const opened = new Set<string>();

  function createFitting(schema: JsonSchema, name: string): fc.Arbitrary<unknown> {
    const choices = schema.anyOf ?? schema.oneOf;
    if (schema.$ref !== undefined) return createReferenced(schema.$ref.split('/').at(-1) ?? '');
    if (schema.enum !== undefined) return fc.constantFrom(...schema.enum);
    if (schema.const !== undefined) return fc.constant(schema.const);
    if (choices !== undefined) return fc.oneof(...choices.map((choice) => createValue(choice, name)));
    if (schema.allOf !== undefined) return createValue(Object.assign({}, ...schema.allOf) as JsonSchema, name);
    const [type = 'object'] = [schema.type].flat();
    if (type === 'string') return createText(schema, name);
    if (type === 'boolean') return fc.boolean();
    if (type === 'integer' || type === 'number') {
      const { minimum = 0, maximum = 100_000 } = schema;
      return fc.integer({ min: Math.max(minimum, -100_000), max: Math.min(maximum, 1_000_000) });
    }
    if (type === 'array') return fc.array(createValue(schema.items ?? {}, name), { maxLength: 3 });
    return createObject(schema);
  }

  function createText({ pattern, format }: JsonSchema, name: string): fc.Arbitrary<string> {
    if (format === 'date-time') return fc.nat(31 * 24).map(writeHoursAgo);
    return pattern === undefined ? chooseText(vocabulary, name) : fc.stringMatching(new RegExp(pattern));
  }

  function createReferenced(name: string): fc.Arbitrary<unknown> {
    // A schema that contains itself describes any JSON value.
    if (opened.has(name)) return fc.jsonValue({ maxDepth: 2 });
    opened.add(name);
    const created = createValue(components.schemas[name] as JsonSchema, name);
    opened.delete(name);
    return created;
  }

  function createObject({ properties = {}, required = [], additionalProperties }: JsonSchema): fc.Arbitrary<unknown> {
    const members = Object.entries(properties).map(([name, member]) => [name, createValue(member, name)] as const);
    const requiredKeys = isWrong && required.length > 0 ? fc.constantFrom(required, []) : fc.constant(required);
    const own = requiredKeys.chain((keys) => fc.record(Object.fromEntries(members), { requiredKeys: [...keys] }));
    const others = typeof additionalProperties === 'object' ? createValue(additionalProperties, '') : fc.jsonValue();
    const isOpen = additionalProperties !== false && members.length === 0;
    const more = isOpen ? fc.dictionary(chooseText(vocabulary, ''), others, { maxKeys: 2 }) : fc.constant({});
    return fc.tuple(own, more).map(([given, added]) => ({ ...added, ...given }));
  }

  function createValue(schema: JsonSchema, name: string): fc.Arbitrary<unknown> {
    const fitting = createFitting(schema, name);
    return isWrong ? mix(fitting, fc.constantFrom(...wrongValues, ...wrongTexts)) : fitting;
  }

  return createValue;
}
