import { z } from 'zod';
import { listOf } from './parts.ts';
import { problem } from './sessions.ts';

const folderName = z.object({ sessionId: z.string(), workspaceId: z.string() });
const changesHash = z.string().describe('SHA-256 of all unmerged changes, for a merge of exactly these.');
const change = z.enum(['added', 'modified', 'deleted']);
export const folderDiff = folderName.extend({
  isolation: z.enum(['worktree', 'copy']).describe('Kind of the folder.'),
  path: z.string().describe('Path of the folder.'),
  branch: z.string().nullable().describe('Branch of a worktree.'),
  commit: z.string().nullable().describe('Commit that a worktree started from.'),
  uncommitted: z
    .boolean()
    .describe('The workspace had uncommitted changes when the folder was created. They are not in the folder.'),
  files: listOf(
    z.object({
      path: z.string(),
      status: change,
      oldMode: z.string().nullable().describe('File mode as in git: 100644, 100755, or 120000 for a link.'),
      newMode: z.string().nullable(),
      binary: z.boolean().describe('The content is not text, or too large to show.'),
      added: z.int().nullable().describe('Number of lines; null if they cannot be counted.'),
      removed: z.int().nullable(),
    }),
  ),
  changesHash,
  patch: z.string().describe('A unified diff that git can apply.'),
  shortened: z.boolean().describe('The patch was truncated.'),
  unnamed: z
    .int()
    .describe('Number of files and folders whose names are not UTF-8. They are not shown and not merged.'),
});

const mergedFiles = listOf(
  z.object({
    path: z.string(),
    change,
    outcome: z
      .enum(['taken', 'merged', 'already', 'left', 'refused', 'conflict'])
      .describe(
        'taken: the version of the session was used. merged: changes of both sides were combined. already: the workspace already has this version. left: the version of the workspace was kept, as requested. refused: sessions may not write this file. conflict: both sides changed the same part.',
      ),
    reason: z.string().optional(),
  }),
).describe('Outcome for each file.');

export const merge = folderName.extend({
  dryRun: z.boolean(),
  fits: z.boolean().describe('False if any file conflicts; then nothing was changed.'),
  changesHash,
  files: mergedFiles,
});

export const mergeConflict = problem.and(z.object({ files: mergedFiles.optional() }));
export const discardedFolder = folderName.extend({ discarded: z.literal(true) });
