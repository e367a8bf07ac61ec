import { z } from 'zod';
import { stringListSchema } from '../../../sessions/session-schema.ts';
import { listOf } from './parts.ts';

export const workspace = z
  .object({
    name: z.string(),
    path: z.string().nullable().describe('Folder of the workspace; null for backends without a folder.'),
    pattern: z.string().nullable().describe('Pattern that makes it a workspace; null if it is configured by its name.'),
    trust: z.enum(['direct', 'sandboxed']).describe('Highest trust level for sessions in the workspace.'),
    backend: z.enum(['local', 'container', 'database']),
    isolation: z
      .enum(['shared', 'worktree', 'copy'])
      .describe('Whether sessions share the folder, or each gets its own.'),
    git: z.enum(['read', 'write']).describe('Whether sandboxed servers may write to .git.'),
    servers: z
      .union([z.enum(['all', 'none']), stringListSchema])
      .describe('Servers that may be used in the workspace.'),
    exists: z.boolean().nullable().describe('Whether the folder exists; null for backends without a folder.'),
    sessions: z.int().nullable().describe('Number of live sessions; null if the store cannot be reached.'),
    folders: listOf(
      z.object({
        sessionId: z.string(),
        kind: z.enum(['worktree', 'copy']),
        kept: z.boolean().describe('The session has ended, and its changes are not merged.'),
      }),
    ).describe('Own folders of sessions, up to 1,000.'),
  })
  .meta({ id: 'Workspace' });

export const workspaces = z.object({
  workspaces: listOf(workspace),
  leftOut: listOf(z.object({ pattern: z.string(), folder: z.string(), reason: z.string() })).describe(
    'Folders of patterns that are no workspaces.',
  ),
  incomplete: listOf(z.object({ pattern: z.string(), reason: z.string() })).describe(
    'Patterns whose folder was not read, or only in part.',
  ),
});

const patterns = stringListSchema.describe('Patterns of tool names.');

export const toolRestrictions = z.object({
  allow: patterns,
  deny: patterns,
  permissions: z.record(z.string(), z.string()).describe('Permission that a session needs, by pattern.'),
  confirm: stringListSchema.describe('Patterns of the tools that a person confirms before each call.'),
  instead: z.record(z.string(), z.string()).describe('Session tool of Ambit that replaces a tool, by pattern.'),
  hideReplaced: z.boolean().describe('Whether the replaced tools are hidden and refused.'),
});

export const rules = z.object({
  rules: listOf(
    z.object({
      id: z.string(),
      effect: z.enum(['allow', 'deny']),
      tools: stringListSchema.describe('Patterns of tool names, as "server__tool".'),
      when: z.string().nullable().describe('CEL condition under which the rule applies; null: always.'),
    }),
  ).describe('Rules of the configuration. Deny takes precedence over allow.'),
  servers: listOf(toolRestrictions.extend({ server: z.string() })).describe(
    'Restrictions on the tools of each server. Their patterns match the own names of its tools.',
  ),
});
