import { z } from 'zod';
import type { AnswerSchemas, RouteDescription } from './route.ts';

type Json = Record<string, unknown>;
type JsonSchema = z.core.JSONSchema.BaseSchema;

/** Describes routes, by method and path, as an OpenAPI document. */
export async function createOpenApiDocument(rows: Readonly<Record<string, RouteDescription>>): Promise<Json> {
  const answers: AnswerSchemas = await import('./answer-schemas.ts');
  const schemas: Json = {};
  const schemaOf = (schema: z.ZodType | keyof AnswerSchemas): JsonSchema => {
    const { properties, $defs } =
      typeof schema === 'string' ? readSchema(answers[schema], 'answer') : readSchema(schema, 'request');
    Object.assign(schemas, $defs);
    return (properties as Record<string, JsonSchema>)['it'] as JsonSchema;
  };
  const paths: Record<string, Json> = {};
  for (const [address, row] of Object.entries(rows)) {
    const [method = '', path = ''] = address.split(' ');
    paths[path] = { ...paths[path], [method.toLowerCase()]: describeOperation(method, path, row, schemaOf) };
  }
  return {
    openapi: '3.1.0',
    info: {
      title: 'Ambit control API',
      version: '1',
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
    },
    servers: [{ url: '/', description: 'The gateway that serves this document.' }],
    security: [{ bearer: [] }],
    paths,
    components: {
      schemas,
      securitySchemes: {
        bearer: {
          type: 'http',
          scheme: 'bearer',
          description:
            'The admin token, the token of a console, or an access token with a role for the control API. `x-ambit-role` is the lowest role that may use an operation. Not needed on the control socket.',
        },
      },
    },
  };
}

type SchemaOf = (schema: z.ZodType | keyof AnswerSchemas) => JsonSchema;

function describeOperation(method: string, path: string, row: RouteDescription, schemaOf: SchemaOf): Json {
  const { summary, description, body, status = 200, returns, answer, type = 'application/json', refusals = {} } = row;
  const { role, isOpen = false } = row;
  const parameters = describeParameters(row, schemaOf);
  const problems = Object.entries({ ...refusals, default: { returns: 'Refused', answer: 'problem' as const } }).map(
    ([code, refusal]) => [code, describeAnswer(refusal.returns, 'application/problem+json', schemaOf(refusal.answer))],
  );
  const words = path.split(/[^a-zA-Z]+/).slice(3);
  return {
    operationId: [method.toLowerCase(), ...words.filter(Boolean).map(capitalize)].join(''),
    tags: [words[0]],
    summary,
    'x-ambit-role': role,
    ...(isOpen ? { security: [] } : {}),
    ...(description === undefined ? {} : { description }),
    ...(parameters.length === 0 ? {} : { parameters }),
    ...(body === undefined
      ? {}
      : { requestBody: { required: true, content: { 'application/json': { schema: schemaOf(body) } } } }),
    responses: {
      [status]: describeAnswer(returns, type, schemaOf(answer)),
      ...Object.fromEntries(problems),
    },
  };
}

function describeAnswer(description: string, type: string, schema: JsonSchema): Json {
  return { description, content: { [type]: { schema } } };
}

function describeParameters({ parameter, query, headers = {} }: RouteDescription, schemaOf: SchemaOf): Json[] {
  const { properties = {}, required = [] } = query === undefined ? {} : schemaOf(query);
  const inPath = parameter === undefined ? [] : [['id', { type: 'string', description: parameter }] as const];
  const inHeaders = Object.entries(headers).map(
    ([name, description]) => [name, { type: 'string', description }] as const,
  );
  const parametersIn = (place: string, all: readonly (readonly [string, unknown])[]) =>
    all.map(([name, found]) => {
      const { description, ...schema } = found as JsonSchema;
      return { name, in: place, required: place === 'path' || required.includes(name), schema, description };
    });
  return [
    ...parametersIn('path', inPath),
    ...parametersIn('query', Object.entries(properties)),
    ...parametersIn('header', inHeaders),
  ];
}

/** Converts a schema as the property `it`, so that a schema with an id becomes a reference to it. */
function readSchema(schema: z.ZodType, side: 'request' | 'answer'): JsonSchema {
  const read = z.toJSONSchema(z.object({ it: schema }), {
    io: 'input',
    override: ({ jsonSchema }) => simplifySchema(jsonSchema, side),
  });
  return JSON.parse(JSON.stringify(read).replaceAll('"#/$defs/', '"#/components/schemas/')) as JsonSchema;
}

/** Writes "or null" as a type and removes what tells a reader nothing. */
function simplifySchema(schema: JsonSchema, side: 'request' | 'answer'): void {
  const [first, second, ...others] = schema.anyOf ?? [];
  if (others.length === 0 && second?.type === 'null' && typeof first?.type === 'string') {
    delete schema.anyOf;
    const choices = first.enum === undefined ? {} : { enum: [...first.enum, null] };
    Object.assign(schema, { ...first, ...schema, ...choices, type: [first.type, 'null'] });
  }
  delete schema.propertyNames;
  if (schema.format === 'date-time') delete schema.pattern;
  if (schema.minimum === Number.MIN_SAFE_INTEGER) delete schema.minimum;
  if (schema.maximum === Number.MAX_SAFE_INTEGER) delete schema.maximum;
  // An answer may get further members; a request with members that are not known is refused.
  if (side === 'answer' && schema.additionalProperties === false) delete schema.additionalProperties;
}

function capitalize(word: string): string {
  return `${word.slice(0, 1).toUpperCase()}${word.slice(1)}`;
}
