import { z } from 'zod';
import {
  authSchema,
  contextSchema,
  credentialsSchema,
  eventsSchema,
  journalSchema,
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

/** The schema of a configuration file. It is strict, so that a misspelt limit is not simply missing. */
const fileSchema = z.strictObject({
  $schema: z.string().max(2048).optional().describe('URL of the JSON Schema, used by editors; Ambit ignores it.'),
  version: z.literal(1).describe('Version of the configuration format.'),
  listen: listenSchema.prefault({}).describe('HTTP listener of the gateway.'),
  auth: authSchema.prefault({}).describe('How callers are authenticated.'),
  store: storeSchema.prefault({}).describe('Database of the sessions.'),
  sessions: sessionsSchema.prefault({}).describe('Lifetime, number and trust of sessions.'),
  quotas: quotasSchema.prefault({}).describe('Limits on tool calls.'),
  context: contextSchema
    .prefault({})
    .describe('Names used to pass the session context to servers and to read announced workspaces from clients.'),
  credentials: credentialsSchema.prefault({}).describe('Storage of per-user credentials for servers.'),
  processes: processesSchema.prefault({}).describe('Lifetime and number of server processes.'),
  events: eventsSchema.prefault({}).describe('Delivery of session events.'),
  journal: journalSchema.prefault({}).describe('How long the journal is kept.'),
  telemetry: telemetrySchema.prefault({}).describe('Export of traces to OpenTelemetry.'),
  limits: limitsSchema.prefault({}).describe('Size and rate limits for messages.'),
  include: z
    .array(filePath)
    .max(100)
    .default([])
    .describe(
      'Files with mcpServers entries, relative to this file. Their servers must be approved before they start.',
    ),
  servers: serversSchema.prefault({}).describe('MCP servers behind the gateway, by name.'),
  rules: rulesSchema.prefault([]).describe('Rules that allow or deny tools; deny wins.'),
  workspaces: workspacesSchema
    .prefault({})
    .describe('Folders that sessions work in, by slug. A name with "*" makes a workspace of each folder.'),
  governance: governanceSchema
    .prefault({})
    .describe('Teams, users, and the policies and objectives shown to the model.'),
});

/**
 * The schema of the whole configuration. Patterns are kept apart from workspaces, so that code which does not know them
 * finds no workspace rather than one with the name of a pattern.
 */
export const configSchema = fileSchema.transform(({ workspaces, ...rest }) => {
  const entries = Object.entries(workspaces);
  return {
    ...rest,
    workspaces: Object.fromEntries(entries.filter(([name]) => !name.includes('*'))),
    workspacePatterns: Object.fromEntries(entries.filter(([name]) => name.includes('*'))),
  };
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
