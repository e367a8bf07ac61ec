import { z } from 'zod';
import { envMap, filePath, mapOf, serverName, trustLevel, workspaceSlug } from './schema-parts.ts';

const oneServerName = z.string().regex(serverName, { error: 'expected the name of a server' });

const workspaceSchema = z.strictObject({
  path: filePath.describe('The folder; relative to this file, or "~/" for the home folder.'),
  trust: trustLevel.prefault('direct').describe('The most trust a session here may have.'),
  capabilities: z
    .strictObject({
      servers: z
        .union([z.enum(['all', 'none']), z.array(oneServerName).max(10_000)])
        .default('all')
        .describe('Servers that may be used here: all, none, or a list of names.'),
    })
    .prefault({})
    .describe('What may be used here.'),
  env: mapOf({ pattern: serverName, rule: 'this is not the name of a server' }, envMap)
    .default({})
    .describe('Further variables for a server when used here, by its name.'),
  isolation: z
    .enum(['shared', 'worktree', 'copy'])
    .default('shared')
    .describe('Whether sessions share the folder or get one of their own.'),
  backend: z.enum(['local', 'container', 'database']).default('local').describe('What keeps the files.'),
});

export const workspacesSchema = mapOf(
  {
    pattern: workspaceSlug,
    rule: 'the slug of a workspace has 1 to 63 of a-z, 0-9, "-", "_" and ".", and starts with a letter or digit',
  },
  workspaceSchema,
);
