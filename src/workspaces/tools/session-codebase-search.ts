import * as z from 'zod';
import { escapeControls } from '../../lib/text/escape-controls.ts';
import { defineTool, sessionArgument, type Tool, withBlocks } from '../../sessions/tools/tool.ts';
import type { CodeIndexes } from '../codebase/code-indexes.ts';
import { type CodebaseMatch, type CodebaseResult, searchCodebase } from '../codebase/codebase-search.ts';
import type { FileAccess } from './file-access.ts';
import { folderArgument } from './file-schemas.ts';
import { toOneLine } from './session-grep-search.ts';

const defaultMatches = 10;
const maxMatches = 50;

export function sessionCodebaseSearch(access: FileAccess, indexes: CodeIndexes): Tool {
  return defineTool({
    name: 'session_codebase_search',
    title: 'Search the codebase',
    description:
      'Finds the passages of files in the workspace that fit a question in words, the best first. Use it when you do not know the exact text; use session_grep_search when you do. Skips hidden files, binary files, files over 1 MiB and files ignored by .gitignore.',
    effect: 'reads',
    input: z.strictObject({
      session: sessionArgument,
      query: z
        .string()
        .min(1)
        .max(1000)
        .describe('What you look for, in words: "where are expired tokens refused". Names of functions are fine too.'),
      path: folderArgument.describe('Folder or file to search. Default: the workspace.'),
      limit: z
        .number()
        .int()
        .min(1)
        .max(maxMatches)
        .optional()
        .describe(`Maximum number of passages. Default: ${defaultMatches}.`),
    }),
    output: z.strictObject({
      matches: z.array(
        z.strictObject({
          path: z.string().describe('Relative to the workspace.'),
          startLine: z.number().int(),
          endLine: z.number().int(),
          text: z.string(),
          why: z.string().describe('Why the passage was found.'),
        }),
      ),
      index: z.strictObject({
        state: z
          .enum(['ready', 'building', 'unavailable'])
          .describe('While it is building, only a part of the files was searched. Ask again for a better answer.'),
        files: z.number().int().describe('Number of indexed files.'),
        total: z.number().int().describe('Number of files to index.'),
        partial: z.boolean().describe('Whether files were left out because there are too many.'),
      }),
    }),
    async run({ session, query, path = '.', limit = defaultMatches }, caller) {
      return access.withFiles(session, caller, 'session_codebase_search', async (files) => {
        const { matches, index } = await searchCodebase(files, indexes, { question: query, path, limit });
        const found = matches.length === 0 ? ['No passage fits.'] : matches.map(renderMatch);
        return withBlocks(
          { matches: [...matches], index: { ...index } },
          { type: 'text', text: [...found, ...explainIndex(index)].join('\n\n') },
        );
      });
    },
  });
}

/** Renders a passage with the numbers of its lines, so that the content of a file cannot look like another passage. */
function renderMatch({ path, startLine, endLine, text, why }: CodebaseMatch): string {
  const lines = text.split('\n').map((line, index) => `${startLine + index}: ${toOneLine(line)}`);
  return [`${escapeControls(path)}:${startLine}-${endLine} (${escapeControls(why)})`, ...lines].join('\n');
}

function explainIndex({ state, files, total, partial }: CodebaseResult['index']): string[] {
  if (state === 'building') {
    const progress = total === 0 ? '' : ` ${files} of ${total} files are done.`;
    return [`[The index is being built, so this answer may be incomplete.${progress} Ask again in some seconds.]`];
  }
  if (state === 'unavailable') return ['[There is no index, so this answer may be incomplete.]'];
  return partial ? ['[The workspace has too many files, and some are not indexed. Use session_grep_search too.]'] : [];
}
