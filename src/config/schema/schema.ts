import { z } from 'zod';
import {
  authSchema,
  contextSchema,
  credentialsSchema,
  eventsSchema,
  limitsSchema,
  listenSchema,
  processesSchema,
  quotasSchema,
  sessionsSchema,
  storeSchema,
  telemetrySchema,
} from './schema-gateway.ts';
import { filePath } from './schema-parts.ts';
import { governanceSchema, rulesSchema } from './schema-policy.ts';
import { serversSchema } from './schema-server.ts';
import { workspacesSchema } from './schema-workspace.ts';

/** The schema of the whole configuration. It is strict, so that a misspelt limit is not simply missing. */
export const configSchema = z.strictObject({
  $schema: z.string().max(2048).optional().describe('Address of the JSON Schema, for editors; not read.'),
  version: z.literal(1).describe('Version of this format.'),
  listen: listenSchema.prefault({}).describe('Where the gateway listens.'),
  auth: authSchema.prefault({}).describe('Who may call.'),
  store: storeSchema.prefault({}).describe('Where sessions and their records live.'),
  sessions: sessionsSchema.prefault({}).describe('How long sessions live, how many there may be.'),
  quotas: quotasSchema.prefault({}).describe('How much may be called.'),
  context: contextSchema.prefault({}).describe('Names under which context is told and announced.'),
  credentials: credentialsSchema.prefault({}).describe('How what servers need for users is kept.'),
  processes: processesSchema
    .prefault({})
    .describe('How long the processes of servers live, and how many there may be.'),
  events: eventsSchema.prefault({}).describe('Who is told what happens to sessions.'),
  telemetry: telemetrySchema.prefault({}).describe('Who is told the spans of each exchange.'),
  limits: limitsSchema.prefault({}).describe('Sizes and rates the gateway accepts.'),
  include: z.array(filePath).max(100).default([]).describe('Plain mcpServers files, relative to this one.'),
  servers: serversSchema.prefault({}).describe('The servers behind the gateway, by name.'),
  rules: rulesSchema.prefault([]).describe('What is allowed and denied, by tool and condition; deny wins.'),
  workspaces: workspacesSchema.prefault({}).describe('The folders sessions work in, by slug.'),
  governance: governanceSchema.prefault({}).describe('People, and the policies and objectives that reach the model.'),
});

export type DeepReadonly<T> = T extends readonly (infer Item)[]
  ? readonly DeepReadonly<Item>[]
  : T extends object
    ? { readonly [Key in keyof T]: DeepReadonly<T[Key]> }
    : T;

/** A configuration as it is written; keys with a default are optional. */
export type ConfigInput = z.input<typeof configSchema>;

export type ConfigDraft = z.output<typeof configSchema>;

/** A configuration that has been checked, completed with defaults, and frozen. */
export type Config = DeepReadonly<ConfigDraft>;
