import { z } from 'zod';
import { instantSchema, jsonSchema, stringListSchema } from '../../../sessions/session-schema.ts';
import { messageSenderSchema } from '../../../sessions/tools/message-tools.ts';
import { listOf } from './parts.ts';
import { effectivePolicies } from './people.ts';

const sourcedValue = z
  .object({
    name: z
      .string()
      .describe(
        'id, name, userId, agentId, workspaceId, workspacePath, trustLevel, permissions, servers, ttlSeconds, endsAt, parentId, task, or quotas.* with the name of a limit.',
      ),
    value: jsonSchema.describe('null if the session has no such value.'),
    source: z.string().describe('Where the value comes from, as a phrase.'),
    limits: stringListSchema.describe('What limits the value now, each as a sentence.'),
  })
  .meta({ id: 'SourcedValue' });

const permissionUse = z
  .object({
    permission: z.string(),
    held: z.boolean().describe('Whether the session has the permission.'),
    usedBy: stringListSchema.describe('Tools that need it, as "server__tool" with the pattern of the configuration.'),
    change: z.string().describe('How to change this, as a sentence.'),
  })
  .meta({ id: 'PermissionUse' });

const toolRestriction = z
  .object({
    server: z.string().describe('Name of the server; "ambit" for the session tools of Ambit.'),
    allow: stringListSchema.describe('Patterns of the tools that may be used. ["*"] allows all.'),
    deny: stringListSchema.describe('Patterns of the tools that may not be used.'),
    rules: stringListSchema.describe('Ids of the rules that name tools of the server.'),
  })
  .meta({ id: 'ToolRestriction' });

export const sessionContext = z.object({
  sessionId: z.string(),
  openedBy: z.string().describe('Who or what opened the session, as a phrase.'),
  values: listOf(sourcedValue),
  servers: listOf(
    z.object({
      name: z.string(),
      available: z.boolean().describe('Whether the session may use the server.'),
      rule: z.string().optional().describe('Rule that excludes the server.'),
      reason: z.string().optional().describe('Why the server is excluded.'),
      problem: z
        .string()
        .optional()
        .describe('Why an available server will not start, if this is known. Only admins get the reason.'),
    }),
  ),
  permissions: listOf(permissionUse).describe(
    'The permissions of the session, and all others that the configuration demands for a tool.',
  ),
  tools: listOf(toolRestriction).describe('Available servers whose tools are restricted, and how.'),
});

export const sessionPolicies = z.object({
  sessionId: z.string(),
  ...effectivePolicies.pick({ policies: true, objectives: true }).shape,
  block: z
    .string()
    .nullable()
    .describe('Text that the model gets now; null if there are no policies and objectives, and for anonymous callers.'),
  carrier: z
    .enum(['first-result', 'instructions', 'both'])
    .describe('How the text reaches the model (governance.carrier). Only deliveries in a result are listed.'),
  deliveries: listOf(
    z.object({
      at: instantSchema,
      to: z
        .string()
        .describe('Ambit’s own name of the client, such as client-0. What clients say about themselves is not kept.'),
      era: z.enum(['modern', 'handshake']).describe('Protocol era of the client.'),
      kind: z.enum(['block', 'notice']).describe('block: the first text of a client. notice: a changed text.'),
      isCurrent: z.boolean().describe('False if policies or objectives have changed since this delivery.'),
    }),
  ).describe('The last deliveries to clients of the session, newest first; at most 16.'),
});

export const sessionState = z.object({
  keys: listOf(
    z.object({
      key: z.string(),
      version: z.int(),
      bytes: z.int().describe('Size of key and value.'),
      expiresAt: instantSchema.nullable(),
      scope: z
        .enum(['session', 'workspace'])
        .describe('workspace: shared by the sessions of the user in the workspace.'),
    }),
  ).describe('First the keys of the session, then those of the workspace, each sorted. Values are not shown.'),
  next: z.string().nullable().describe('Pass as "after" to get the next page; null on the last page.'),
});

export const sessionMessages = z.object({
  messages: listOf(
    z.object({
      id: z.string(),
      at: instantSchema,
      from: messageSenderSchema.describe('The sending session. All members but the name are null for the operator.'),
      text: z.string(),
      replyTo: z.string().nullable().describe('Id of the message that it answers.'),
    }),
  ).describe('Messages that the session has not acknowledged, oldest first.'),
  next: z.string().nullable().describe('Pass as "after" to get the next page; null on the last page.'),
});

export const sentMessage = z.object({ messageId: z.string() });
