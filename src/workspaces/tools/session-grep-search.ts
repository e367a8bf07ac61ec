import * as z from 'zod';
import { sessionArgument } from '../../sessions/tools/shown-session.ts';
import { shown, type Tool, tool } from '../../sessions/tools/tool.ts';
import { readExpression } from '../search/expression.ts';
import { type GrepFound, grep } from '../search/grep.ts';
import type { FileAccess } from './file-access.ts';
import { folderArgument, truncated, whyTruncated } from './found-entry.ts';
import { grepText } from './grep-text.ts';
import { readGlob } from './session-file-search.ts';

const most = 1000;
const usual = 100;
const mostContext = 20;

const line = z.strictObject({ line: z.number().int(), text: z.string() });

export function sessionGrepSearch(access: FileAccess): Tool {
  return tool({
    name: 'session_grep_search',
    title: 'Search in files of a session',
    description:
      'Finds lines in files of the session’s workspace by a regular expression (RE2: no looking ahead or behind, no \\1). What .gitignore names, .git and files that are not text are left out.',
    effect: 'reads',
    input: z.strictObject({
      session: sessionArgument,
      pattern: z.string().min(1).max(1000).describe('A regular expression for one line.'),
      path: folderArgument.describe('The folder or file to look in; the workspace unless told.'),
      glob: z.string().min(1).max(1000).optional().describe('Only files whose paths fit, such as *.ts or src/**/*.py.'),
      caseSensitive: z.boolean().optional().describe('Whether capital letters matter; true unless told.'),
      contextLines: z.number().int().min(0).max(mostContext).optional().describe('Lines before and after each match.'),
      limit: z.number().int().min(1).max(most).optional().describe(`At most this many lines; ${usual} unless told.`),
    }),
    output: z.strictObject({
      matches: z.array(
        z.strictObject({
          path: z.string().describe('Relative to the workspace.'),
          line: z.number().int(),
          column: z.number().int().describe('Of the first match in the line, from 1.'),
          text: z.string().describe('The line; of a long one the part around the match.'),
          before: z.array(line).optional(),
          after: z.array(line).optional(),
        }),
      ),
      truncated,
    }),
    async run(args, caller) {
      const { session, pattern, path = '.', caseSensitive = true, contextLines = 0, limit = usual } = args;
      const expression = readExpression(pattern, caseSensitive);
      const glob = args.glob === undefined ? undefined : readGlob(args.glob, 'glob');
      return access.in(session, caller, 'session_grep_search', async (files) => {
        const found = await grep(files, { expression, path, glob, contextLines, limit });
        const { stopped = null } = found;
        const advice = 'Give a narrower pattern, a path or a glob.';
        return shown(
          { matches: matchesOf(found, contextLines > 0), truncated: stopped },
          {
            type: 'text',
            text: [grepText(found), ...(stopped === null ? [] : [whyTruncated(stopped, advice)])].join('\n'),
          },
        );
      });
    },
  });
}

function matchesOf({ files }: GrepFound, withContext: boolean) {
  return files.flatMap(({ path, matches }) =>
    matches.map(({ line: number, column, text, before, after }) => ({
      path,
      line: number,
      column,
      text,
      ...(withContext ? { before: [...before], after: [...after] } : {}),
    })),
  );
}
