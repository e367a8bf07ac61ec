import { z } from 'zod';
import { foldName } from '../../lib/text/fold-name.ts';
import { compileGlob, GlobError } from '../../lib/text/glob.ts';
import {
  byteCount,
  envMap,
  filePath,
  mapOf,
  positiveCount,
  serverName,
  textLine,
  trustLevel,
  workspaceSlug,
} from './schema-parts.ts';

const serverNameSchema = z.string().regex(serverName, { error: 'expected the name of a server' });

/** Checks a glob, because an invalid one would protect nothing without notice. */
const globSchema = textLine(512).superRefine((text, context) => {
  try {
    compileGlob(foldName(text));
  } catch (error) {
    if (!(error instanceof GlobError)) throw error;
    context.addIssue({ code: 'custom', message: `this is no glob: ${error.message}` });
  }
});

const globListSchema = z.array(globSchema).max(1000).default([]);

const filesSchema = z.strictObject({
  hide: globListSchema.describe('Further paths that no session may read or write, as globs; "**" crosses folders.'),
  keep: globListSchema.describe('Further paths that sessions may read but not write.'),
  open: globListSchema.describe('Paths that are free although the built-in lists close them.'),
  fileBytes: byteCount.default(16 * 1024 * 1024).describe('The largest file a session may write.'),
  sessionBytes: positiveCount(1024 ** 4)
    .default(1024 ** 3)
    .describe('The most that one session may write in its life.'),
  sessionEntries: positiveCount(10_000_000)
    .default(100_000)
    .describe('The most files and folders that one session may make.'),
  id: textLine(64)
    .optional()
    .describe(
      'Which files these are, where the backend "database" keeps them: with another id the workspace begins without files.',
    ),
  durable: z.boolean().default(false).describe('Whether a write waits until the disk has it.'),
});

const workspaceSchema = z.strictObject({
  path: filePath
    .optional()
    .describe('The folder; relative to this file, or "~/" for the home folder. Only the backend "local" has one.'),
  trust: trustLevel.prefault('direct').describe('The most trust a session here may have.'),
  capabilities: z
    .strictObject({
      servers: z
        .union([z.enum(['all', 'none']), z.array(serverNameSchema).max(10_000)])
        .default('all')
        .describe('Servers that may be used here: all, none, or a list of names.'),
    })
    .prefault({})
    .describe('What may be used here.'),
  env: mapOf({ pattern: serverName, rule: 'this is not the name of a server' }, envMap)
    .default({})
    .describe('Further variables for a server when used here, by its name.'),
  create: z
    .boolean()
    .default(false)
    .describe('Whether the folder is made where it does not exist. Otherwise a missing folder is an error.'),
  git: z
    .enum(['read', 'write'])
    .default('read')
    .describe(
      'Whether servers in a sandbox may write into the repository; never into what git runs or is configured by.',
    ),
  isolation: z
    .enum(['shared', 'worktree', 'copy'])
    .default('shared')
    .describe('Whether sessions share the folder or get one of their own.'),
  onEnd: z
    .enum(['auto', 'keep', 'remove'])
    .default('auto')
    .describe("What becomes of a session's own folder at its end: auto keeps it while it holds what was not merged."),
  backend: z.enum(['local', 'container', 'database']).default('local').describe('What keeps the files.'),
  files: filesSchema.prefault({}).describe('What the session file tools may do here.'),
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
    error: 'only the backend "local" works in a folder; the others keep the files themselves',
    when: () => true,
  });

/** Only the backend "database" has an id of files. */
const workspaceWithFiles = workspaceWithPath.refine(
  ({ files, backend }) => backend === 'database' || files.id === undefined,
  { path: ['files', 'id'], error: 'only the backend "database" knows files by an id' },
);

export const workspacesSchema = mapOf(
  {
    pattern: workspaceSlug,
    rule: 'the slug of a workspace has 1 to 63 of a-z, 0-9, "-", "_" and ".", and starts with a letter or digit',
  },
  workspaceWithFiles,
);
