import * as z from 'zod';
import { escapeControls } from '../../lib/text/escape-controls.ts';
import { sessionArgument, shown, type Tool, tool } from '../../sessions/tools/tool.ts';
import { readExpression } from '../search/expression.ts';
import { type GrepFound, grep } from '../search/grep.ts';
import type { FoundMatch } from '../search/grep-file.ts';
import type { FileAccess } from './file-access.ts';
import { folderArgument, truncated, whyTruncated } from './file-schemas.ts';
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

/** File by file: matches as `12: text`, lines near them as `13- text`, each line once. */
function grepText({ files }: GrepFound): string {
  if (files.length === 0) return 'No line fits.';
  return files.map(({ path, matches }) => [escapeControls(path), ...linesOf(matches)].join('\n')).join('\n\n');
}

function linesOf(matches: readonly FoundMatch[]): string[] {
  const lines = new Map<number, string>();
  for (const { before, after } of matches) {
    for (const near of [...before, ...after]) lines.set(near.line, `${near.line}- ${oneLine(near.text)}`);
  }
  for (const { line, text } of matches) lines.set(line, `${line}: ${oneLine(text)}`);
  const numbers = [...lines.keys()].sort((a, b) => a - b);
  const hasContext = matches.some(({ before, after }) => before.length + after.length > 0);
  return numbers.flatMap((number, index) => {
    const isApart = hasContext && index > 0 && number !== (numbers[index - 1] as number) + 1;
    return [...(isApart ? ['--'] : []), lines.get(number) as string];
  });
}

/** What stands in a file must not look like a line of this answer. */
function oneLine(text: string): string {
  return text.replace(/[\r\u0085\u2028\u2029]/g, ' ');
}
