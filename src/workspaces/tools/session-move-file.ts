import * as z from 'zod';
import { escapeControls } from '../../lib/text/escape-controls.ts';
import { defineTool, sessionArgument, type Tool, withBlocks } from '../../sessions/tools/tool.ts';
import type { FileAccess } from './file-access.ts';
import { pathArgument } from './file-schemas.ts';

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
