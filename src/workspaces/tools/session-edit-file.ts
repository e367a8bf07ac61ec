import * as z from 'zod';
import { isWellFormedText } from '../../lib/text/encoding.ts';
import { escapeControls } from '../../lib/text/escape-controls.ts';
import { formatCount } from '../../lib/text/format-count.ts';
import { defineTool, sessionArgument, type Tool, withBlocks } from '../../sessions/tools/tool.ts';
import { editFile, type FileChange } from './edit-file.ts';
import { changeMissingError, halfCharacterError, sameTextError } from './edit-refusals.ts';
import type { FileAccess } from './file-access.ts';
import { pathArgument } from './file-schemas.ts';

const maxEdits = 100;

const edit = z.strictObject({
  oldText: z.string().describe('Text to replace, exactly as it is in the file, with enough context to be unique.'),
  newText: z.string().describe('Replacement text.'),
  replaceAll: z.boolean().optional().describe('Replace every occurrence.'),
});

const output = z.strictObject({
  path: z.string().describe('Path of the file after following links.'),
  created: z.boolean(),
  changed: z.boolean().describe('False if the file already had this content.'),
  dryRun: z.boolean(),
  bytes: z.number().int(),
  lines: z.number().int(),
  sha256: z.string().describe('Hash of the new content.'),
  encoding: z.string(),
  bom: z.boolean(),
  lineEnding: z.enum(['lf', 'crlf', 'mixed', 'none']),
  edits: z
    .array(
      z.strictObject({
        strategy: z
          .enum(['exact', 'line-endings', 'trailing-whitespace', 'indentation', 'existing-code'])
          .describe('How oldText was matched; "existing-code" for a block of content between markers.'),
        replacements: z.number().int(),
        line: z.number().int().describe('Line of the first replacement.'),
      }),
    )
    .describe('Result of each edit.'),
  added: z.number().int().describe('Number of added lines.'),
  removed: z.number().int().describe('Number of removed lines.'),
  diff: z.string().nullable().describe('Unified diff; null for a new file or a very long diff.'),
});

export function sessionEditFile(access: FileAccess): Tool {
  return defineTool({
    name: 'session_edit_file',
    title: 'Edit a file',
    description:
      'Changes a file in the workspace. "edits" replaces texts that occur exactly once, in order, all or none. "content" writes the whole file, creating folders; comment lines "... existing code ..." in it keep lines of the file. Line endings, encoding and mode are kept. Read the file first.',
    effect: 'destroys',
    input: z.strictObject({
      session: sessionArgument,
      path: pathArgument.describe('Relative to the workspace, such as "src/index.ts".'),
      content: z
        .string()
        .optional()
        .describe(
          'New content of the whole file. Or parts of it, between lines such as "// ... existing code ..."; each part must start and end with a line that the file has exactly once. Use either this or edits.',
        ),
      literal: z.boolean().optional().describe('Write "existing code" lines in content as they are.'),
      edits: z.array(edit).min(1).max(maxEdits).optional().describe('Replacements. Use either this or content.'),
      dryRun: z.boolean().optional().describe('Return the diff without writing.'),
      expectedSha256: z
        .string()
        .regex(/^[0-9a-fA-F]{64}$/, 'must be 64 hexadecimal digits')
        .optional()
        .describe('Change the file only if it still has this hash, as returned by session_read_file.'),
    }),
    output,
    async run({ session, path, content, literal = false, edits, dryRun = false, expectedSha256 }, caller) {
      const change = readChange(content, literal, edits);
      const answer = await access.withFiles(session, caller, 'session_edit_file', (files) =>
        editFile(files, { path, change, dryRun, expectedSha256: expectedSha256?.toLowerCase() }),
      );
      return withBlocks(answer, { type: 'text', text: summarizeEdit(answer) });
    },
  });
}

function readChange(
  content: string | undefined,
  literal: boolean,
  edits: z.output<typeof edit>[] | undefined,
): FileChange {
  if ((content === undefined) === (edits === undefined)) throw changeMissingError();
  if (edits === undefined) {
    if (!isWellFormedText(content as string)) throw halfCharacterError();
    return { content: content as string, literal };
  }
  for (const [i, { oldText, newText }] of edits.entries()) {
    if (!isWellFormedText(newText)) throw halfCharacterError();
    if (oldText === newText) throw sameTextError(`edits[${i}]`);
  }
  return { edits };
}

function summarizeEdit({
  path: where,
  created,
  changed,
  dryRun,
  lines,
  bytes,
  added,
  removed,
  diff,
  edits,
}: z.input<typeof output>) {
  const path = escapeControls(where);
  const loose = new Set(edits.map(({ strategy }) => strategy).filter((strategy) => strategy !== 'exact'));
  const ways = loose.has('existing-code')
    ? ' Lines at "existing code" markers were kept.'
    : loose.size > 0
      ? ` Matched except for ${[...loose].join(', ')}.`
      : '';
  const size = `${formatCount(lines, 'line')}, ${formatCount(bytes, 'byte')}`;
  if (created) return `${dryRun ? 'Would create' : 'Created'} ${path}: ${size}.`;
  if (!changed) return `${path} already has this content.`;
  const head = `${dryRun ? 'Would change' : 'Changed'} ${path}: +${added} −${removed} lines, now ${size}.${ways}`;
  return diff === null || diff === '' ? head : `${head}\n\n${diff}`;
}
