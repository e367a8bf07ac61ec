import type { KeyPath } from '../explain/show.ts';
import { configJsonSchema, type JsonSchema } from './json-schema.ts';

function branches(schema: JsonSchema): JsonSchema[] {
  return [schema, ...(schema.anyOf ?? []).flatMap(branches)];
}

function step(schemas: readonly JsonSchema[], segment: string | number): JsonSchema[] {
  return schemas.flatMap(branches).flatMap((schema) => {
    if (typeof segment === 'number') return schema.items === undefined ? [] : [schema.items];
    const { properties, additionalProperties } = schema;
    const property = properties !== undefined && Object.hasOwn(properties, segment) ? properties[segment] : undefined;
    if (property !== undefined) return [property];
    return typeof additionalProperties === 'object' ? [additionalProperties] : [];
  });
}

/** The keys that may stand in the map at a path. */
export function knownKeysAt(path: KeyPath, root: JsonSchema = configJsonSchema()): string[] {
  const here = path.reduce<JsonSchema[]>(step, [root]);
  return here.flatMap(branches).flatMap((schema) => Object.keys(schema.properties ?? {}));
}

export interface KnownKey {
  /** `servers.*.tools`, `rules[].id` */
  readonly key: string;
  readonly schema: JsonSchema;
}

/** Every key of the configuration; `*` stands for a name the operator chooses. */
export function knownKeys(schema: JsonSchema = configJsonSchema(), prefix = ''): KnownKey[] {
  return branches(schema).flatMap((branch) => {
    const own = Object.entries(branch.properties ?? {}).flatMap(([name, property]) => {
      const key = prefix === '' ? name : `${prefix}.${name}`;
      return [{ key, schema: property }, ...knownKeys(property, key)];
    });
    const { additionalProperties, items } = branch;
    const free = typeof additionalProperties === 'object' ? knownKeys(additionalProperties, `${prefix}.*`) : [];
    return [...own, ...free, ...(items === undefined ? [] : knownKeys(items, `${prefix}[]`))];
  });
}
