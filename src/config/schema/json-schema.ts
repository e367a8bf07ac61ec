import { z } from 'zod';
import type { KeyPath } from '../explain/problem.ts';
import { configSchema } from './schema.ts';

interface KnownKey {
  /** A path such as `servers.*.tools` or `rules[].id`. */
  readonly key: string;
  readonly schema: JsonSchema;
}

/** The part of JSON Schema (2020-12) that describes a configuration. */
export interface JsonSchema {
  readonly $schema?: string;
  readonly title?: string;
  readonly description?: string;
  readonly type?: string;
  readonly default?: unknown;
  readonly pattern?: string;
  readonly properties?: Readonly<Record<string, JsonSchema>>;
  readonly required?: readonly string[];
  readonly additionalProperties?: boolean | JsonSchema;
  readonly propertyNames?: JsonSchema;
  readonly items?: JsonSchema;
  readonly anyOf?: readonly JsonSchema[];
  readonly oneOf?: readonly JsonSchema[];
}

/** Creates the JSON Schema of a configuration file, for editors. Rules across keys are checked only at the start. */
export function createConfigJsonSchema(): JsonSchema {
  const { $schema, ...rest } = z.toJSONSchema(configSchema, { io: 'input' }) as JsonSchema;
  return {
    ...($schema === undefined ? {} : { $schema }),
    title: 'Ambit configuration',
    description: 'The configuration file of Ambit (ambit.yaml).',
    ...rest,
  };
}

function listBranches(schema: JsonSchema): JsonSchema[] {
  return [schema, ...(schema.anyOf ?? []).flatMap(listBranches)];
}

function descend(schemas: readonly JsonSchema[], segment: string | number): JsonSchema[] {
  return schemas.flatMap(listBranches).flatMap((schema) => {
    if (typeof segment === 'number') return schema.items === undefined ? [] : [schema.items];
    const { properties, additionalProperties } = schema;
    const property = properties !== undefined && Object.hasOwn(properties, segment) ? properties[segment] : undefined;
    if (property !== undefined) return [property];
    return typeof additionalProperties === 'object' ? [additionalProperties] : [];
  });
}

/** Lists the keys that are allowed in the map at a path. */
export function listKeysAt(path: KeyPath, root: JsonSchema = createConfigJsonSchema()): string[] {
  const here = path.reduce<JsonSchema[]>(descend, [root]);
  return here.flatMap(listBranches).flatMap((schema) => Object.keys(schema.properties ?? {}));
}

/** Lists every key of the configuration; `*` stands for a name that the operator chooses. */
export function listKnownKeys(schema: JsonSchema = createConfigJsonSchema(), prefix = ''): KnownKey[] {
  return listBranches(schema).flatMap((branch) => {
    const own = Object.entries(branch.properties ?? {}).flatMap(([name, property]) => {
      const key = prefix === '' ? name : `${prefix}.${name}`;
      return [{ key, schema: property }, ...listKnownKeys(property, key)];
    });
    const { additionalProperties, items } = branch;
    const free = typeof additionalProperties === 'object' ? listKnownKeys(additionalProperties, `${prefix}.*`) : [];
    return [...own, ...free, ...(items === undefined ? [] : listKnownKeys(items, `${prefix}[]`))];
  });
}
