import { z } from 'zod';
import { configSchema } from './schema.ts';

/** The part of JSON Schema (2020-12) that describes a configuration. */
export interface JsonSchema {
  readonly $schema?: string;
  readonly title?: string;
  readonly description?: string;
  readonly type?: string;
  readonly default?: unknown;
  readonly const?: unknown;
  readonly enum?: readonly unknown[];
  readonly pattern?: string;
  readonly properties?: Readonly<Record<string, JsonSchema>>;
  readonly required?: readonly string[];
  readonly additionalProperties?: boolean | JsonSchema;
  readonly propertyNames?: JsonSchema;
  readonly items?: JsonSchema;
  readonly anyOf?: readonly JsonSchema[];
  readonly oneOf?: readonly JsonSchema[];
}

/** What may be written into a configuration file, for editors; rules across keys are checked at start only. */
export function configJsonSchema(): JsonSchema {
  const { $schema, ...rest } = z.toJSONSchema(configSchema, { io: 'input' }) as JsonSchema;
  return {
    ...($schema === undefined ? {} : { $schema }),
    title: 'Ambit configuration',
    description: 'What ambit.yaml may hold.',
    ...rest,
  };
}
