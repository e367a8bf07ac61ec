import * as z from 'zod';
import { AmbitError } from '../../errors.ts';
import { escapeControls } from '../../lib/text/escape-controls.ts';
import { compileGlob, type Glob, GlobError } from '../../lib/text/glob.ts';
import { defineTool, sessionArgument, type Tool, withBlocks } from '../../sessions/tools/tool.ts';
import { findFiles } from '../search/walk-files.ts';
import type { FileAccess } from './file-access.ts';
import {
  defaultLimit,
  describeEntry,
  entrySchema,
  explainTruncation,
  folderArgument,
  limitArgument,
  truncatedSchema,
} from './file-schemas.ts';

export function sessionFileSearch(access: FileAccess): Tool {
  return defineTool({
    name: 'session_file_search',
    title: 'Find files',
    description:
      'Finds files in the workspace by a glob, most recently changed first. Skips .git and files ignored by .gitignore.',
    effect: 'reads',
    input: z.strictObject({
      session: sessionArgument,
      pattern: z
        .string()
        .min(1)
        .max(1000)
        .describe(
          'Glob, such as **/*.ts or src/{api,web}/**. A glob without a slash matches file names in any folder.',
        ),
      path: folderArgument.describe('Folder to search; the pattern is relative to it. Default: the workspace.'),
      limit: limitArgument.describe(`Maximum number of files. Default: ${defaultLimit}.`),
    }),
    output: z.strictObject({
      files: z.array(entrySchema),
      total: z.number().int().describe('Number of matching files that were found.'),
      truncated: truncatedSchema,
    }),
    async run({ session, pattern, path = '.', limit = defaultLimit }, caller) {
      const glob = parseGlob(pattern, 'pattern');
      return access.withFiles(session, caller, 'session_file_search', async (files) => {
        const { files: found, total, stopped = null } = await findFiles(files, { glob, path, limit });
        const paths = found.length === 0 ? ['No file matches.'] : found.map((file) => escapeControls(file.path));
        const advice = 'Use a narrower pattern, or a path.';
        return withBlocks(
          { files: found.map(describeEntry), total, truncated: stopped },
          { type: 'text', text: [...paths, ...explainTruncation(stopped, advice)].join('\n') },
        );
      });
    },
  });
}

export function parseGlob(glob: string, name: string): Glob {
  try {
    return compileGlob(glob.replace(/^\.\//, ''), { matchAnyFolder: true });
  } catch (error) {
    if (!(error instanceof GlobError)) throw error;
    throw new AmbitError('REQUEST_INVALID', {
      what: `"${name}" is not a valid glob: ${error.message}.`,
      hint: 'Put a backslash before a special character to match it literally.',
    });
  }
}
