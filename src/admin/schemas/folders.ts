import { z } from 'zod';
import { list, problemSchema } from './parts.ts';

export const folderQuery = z.object({
  workspace: z.string().optional().describe('Which folder, where it has several.'),
});
export const mergeRequest = z.strictObject({
  workspace: z.string().optional().describe('Which folder, where it has several.'),
  dryRun: z.boolean().optional().describe('Only say what would be done.'),
  prefer: z.enum(['session', 'workspace']).optional().describe('Whose version counts where both changed the same.'),
});

const folderName = z.object({ sessionId: z.string(), workspaceId: z.string() });
const change = z.enum(['added', 'modified', 'deleted']);

export const folderDiff = folderName.extend({
  isolation: z.enum(['worktree', 'copy']),
  path: z.string(),
  branch: z.string().nullable(),
  commit: z.string().nullable(),
  uncommitted: z
    .boolean()
    .describe('The workspace had changes when the folder was made which are in no commit, and so not in the folder.'),
  files: list(
    z.object({
      path: z.string(),
      status: change,
      oldMode: z.string().nullable().describe('As git writes it: 100644, 100755, or 120000 for a link.'),
      newMode: z.string().nullable(),
      binary: z.boolean().describe('Its content is no text, or too large to be shown.'),
      added: z.int().nullable().describe('Lines; null where they cannot be counted.'),
      removed: z.int().nullable(),
    }),
  ),
  patch: z.string().describe('A unified diff that git can apply.'),
  shortened: z.boolean().describe('The patch would have been longer than is shown.'),
});

const mergedFiles = list(
  z.object({
    path: z.string(),
    change,
    outcome: z
      .enum(['taken', 'merged', 'already', 'left', 'refused', 'conflict'])
      .describe(
        'taken: as the session has it. merged: with what was changed in the workspace meanwhile. already: the workspace has it. left: the workspace\u2019s own was preferred. refused: closed to sessions. conflict: both changed the same.',
      ),
    reason: z.string().optional(),
  }),
).describe('What became of each file.');

export const merge = folderName.extend({
  dryRun: z.boolean(),
  fits: z.boolean().describe('False where anything conflicts: then nothing was changed.'),
  files: mergedFiles,
});
export const mergeConflict = problemSchema.and(z.object({ files: mergedFiles }));
export const discardedFolder = folderName.extend({ discarded: z.literal(true) });
