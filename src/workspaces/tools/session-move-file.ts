import * as z from 'zod';
import { escapeControls } from '../../lib/text/escape-controls.ts';
import { defineTool, sessionArgument, type Tool, withBlocks } from '../../sessions/tools/tool.ts';
import type { FileAccess } from './file-access.ts';
import { pathArgument } from './file-schemas.ts';

/** A folder with more entries is not deleted: the damage of a wrong path would be too large. */
const maxEntries = 10_000;

export function sessionMoveFile(access: FileAccess): Tool {
  return defineTool({
    name: 'session_move_file',
    title: 'Move or rename a file',
    description:
      'Moves or renames a file, folder or link within the workspace. Creates missing folders. Replaces an existing file only with "overwrite".',
    effect: 'destroys',
    input: z.strictObject({
      session: sessionArgument,
      from: pathArgument.describe('Relative to the workspace.'),
      to: pathArgument.describe('The new path, including the file name.'),
      overwrite: z.boolean().optional().describe('Replace an existing file at the new path.'),
    }),
    output: z.strictObject({
      from: z.string(),
      to: z.string(),
      kind: z.enum(['file', 'folder', 'link', 'special']),
    }),
    async run({ session, from, to, overwrite = false }, caller) {
      const moved = await access.withFiles(session, caller, 'session_move_file', (files) =>
        files.runExclusive(from, () => files.move(from, to, { overwrite })),
      );
      const answer = { from: moved.from, to: moved.to, kind: moved.kind };
      const [old, now] = [escapeControls(moved.from), escapeControls(moved.to)];
      return withBlocks(answer, { type: 'text', text: `Moved ${moved.kind} ${old} to ${now}.` });
    },
  });
}

export function sessionDeleteFile(access: FileAccess): Tool {
  return defineTool({
    name: 'session_delete_file',
    title: 'Delete a file',
    description:
      'Deletes a file, a link (not its target) or an empty folder in the workspace. With "recursive", deletes a folder with its contents.',
    effect: 'destroys',
    input: z.strictObject({
      session: sessionArgument,
      path: pathArgument.describe('Relative to the workspace, such as "src/old.ts".'),
      recursive: z
        .boolean()
        .optional()
        .describe(`Also delete the contents of the folder, up to ${maxEntries} entries.`),
    }),
    output: z.strictObject({
      path: z.string(),
      kind: z.enum(['file', 'folder', 'link', 'special']),
      entries: z.number().int().describe('Number of deleted files, links and folders.'),
    }),
    async run({ session, path, recursive = false }, caller) {
      const removed = await access.withFiles(session, caller, 'session_delete_file', (files) =>
        files.runExclusive(path, () => files.remove(path, { recursive, maxEntries })),
      );
      const { kind, entries } = removed;
      const more = entries > 1 ? `, ${entries} entries in total` : '';
      return withBlocks(
        { path: removed.path, kind, entries },
        { type: 'text', text: `Deleted ${kind} ${escapeControls(removed.path)}${more}.` },
      );
    },
  });
}
