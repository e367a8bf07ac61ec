import { z } from 'zod';
import { foldName } from '../../lib/text/fold-name.ts';
import { compileGlob, GlobError } from '../../lib/text/glob.ts';
import { byteCount, envMap, filePath, mapOf, positiveCount, serverName, textLine, trustLevel } from './schema-parts.ts';

const serverNameSchema = z.string().regex(serverName, { error: 'expected the name of a server' });

/** Checks a glob, because an invalid one would protect nothing without notice. */
const globSchema = textLine(512).superRefine((text, context) => {
  try {
    compileGlob(foldName(text));
  } catch (error) {
    if (!(error instanceof GlobError)) throw error;
    context.addIssue({ code: 'custom', message: `this is not a valid glob: ${error.message}` });
  }
});

const globListSchema = z.array(globSchema).max(1000).default([]);

export const filesSchema = z.strictObject({
  hide: globListSchema.describe(
    'Globs of additional paths that sessions can neither read nor write. "**" matches any number of folders.',
  ),
  keep: globListSchema.describe('Globs of additional paths that sessions can read but not write.'),
  open: globListSchema.describe('Globs of paths that sessions can use although Ambit protects them by default.'),
  fileBytes: byteCount.default(16 * 1024 * 1024).describe('Maximum size of a file that a session writes.'),
  sessionBytes: positiveCount(1024 ** 4)
    .default(1024 ** 3)
    .describe('Maximum number of bytes that one session writes.'),
  sessionEntries: positiveCount(10_000_000)
    .default(100_000)
    .describe('Maximum number of files and folders that one session creates.'),
  id: textLine(64)
    .optional()
    .describe('Id of the stored files, for the backend "database". A new id starts with an empty workspace.'),
  durable: z.boolean().default(false).describe('A write waits until the data is on disk.'),
});

const workspaceSchema = z.strictObject({
  path: filePath
    .optional()
    .describe(
      'Folder of the workspace, relative to this file or starting with "~/". Required with the backend "local", not allowed with others. A pattern ends in "/*": each folder there is a workspace.',
    ),
  trust: trustLevel.prefault('direct').describe('Highest trust level for sessions in this workspace.'),
  capabilities: z
    .strictObject({
      servers: z
        .union([z.enum(['all', 'none']), z.array(serverNameSchema).max(10_000)])
        .default('all')
        .describe('Servers that may be used in this workspace: all, none, or a list of names.'),
    })
    .prefault({})
    .describe('Restrictions on what sessions in this workspace may use.'),
  env: mapOf({ pattern: serverName, rule: 'this is not the name of a server' }, envMap)
    .default({})
    .describe('Additional environment variables per server, for sessions in this workspace.'),
  create: z
    .boolean()
    .default(false)
    .describe('Create the folder if it does not exist. Otherwise a missing folder is an error.'),
  git: z
    .enum(['read', 'write'])
    .default('read')
    .describe('Whether sandboxed servers may write to .git. Hooks and configuration of git always stay read-only.'),
  messages: z
    .strictObject({
      toDirect: z
        .boolean()
        .default(false)
        .describe('Whether sandboxed sessions in this workspace can find direct ones and send them messages.'),
    })
    .prefault({})
    .describe('Messages between the sessions in this workspace.'),
  isolation: z
    .enum(['shared', 'worktree', 'copy'])
    .default('shared')
    .describe('Whether sessions share the folder, or each gets its own git worktree or copy.'),
  onEnd: z
    .enum(['auto', 'keep', 'remove'])
    .default('auto')
    .describe(
      'What happens to the own folder of a session when the session ends. "auto" keeps it while it has unmerged changes.',
    ),
  backend: z
    .enum(['local', 'container', 'database'])
    .default('local')
    .describe('Where the files are stored: a local folder, a container volume, or the session store.'),
  files: filesSchema.prefault({}).describe('Restrictions on the session file tools in this workspace.'),
});

/** Only the backend "local" has a folder. This is reported beside other problems. */
const workspaceWithPath = workspaceSchema
  .refine(({ path, backend = 'local' }) => backend !== 'local' || path !== undefined, {
    path: ['path'],
    error: 'missing; expected a string',
    when: () => true,
  })
  .refine(({ path, backend = 'local' }) => backend === 'local' || path === undefined, {
    path: ['path'],
    error: 'only the backend "local" has a path; the others store the files themselves',
    when: () => true,
  });

/** Only the backend "database" has an id of files. */
const workspaceWithFiles = workspaceWithPath.refine(
  ({ files, backend }) => backend === 'database' || files.id === undefined,
  { path: ['files', 'id'], error: 'only the backend "database" has an id' },
);

/** The name of a workspace, or of a pattern: with one "*" in the place of a folder. */
const workspaceKey = /^(?=[^*]*\*?[^*]*$)[a-z0-9*][a-z0-9\-_.*]{0,62}$/;

export const workspacesSchema = mapOf(
  {
    pattern: workspaceKey,
    rule: 'a workspace name has 1 to 63 characters of a-z, 0-9, "-", "_" and ".", and starts with a letter or digit; a pattern also has one "*"',
  },
  workspaceWithFiles,
);
