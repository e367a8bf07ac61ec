import * as z from 'zod';
import { escapeControls } from '../../lib/text/escape-controls.ts';
import { defineTool, sessionArgument, type Tool, withBlocks } from '../../sessions/tools/tool.ts';
import { parseExpression } from '../search/expression.ts';
import { type FoundMatch, type GrepResult, grepFiles } from '../search/grep.ts';
import type { FileAccess } from './file-access.ts';
import { defaultLimit, explainTruncation, folderArgument, limitArgument, truncatedSchema } from './file-schemas.ts';
import { parseGlob } from './session-file-search.ts';

const maxContext = 20;
const line = z.strictObject({ line: z.number().int(), text: z.string() });

export function sessionGrepSearch(access: FileAccess): Tool {
  return defineTool({
    name: 'session_grep_search',
    title: 'Search in files',
    description:
      'Finds lines in files of the workspace by a regular expression (RE2: no lookaround, no backreferences). Skips .git, binary files and files ignored by .gitignore.',
    effect: 'reads',
    input: z.strictObject({
      session: sessionArgument,
      pattern: z.string().min(1).max(1000).describe('Regular expression, matched against single lines.'),
      path: folderArgument.describe('Folder or file to search. Default: the workspace.'),
      glob: z
        .string()
        .min(1)
        .max(1000)
        .optional()
        .describe('Search only files that match this glob, such as *.ts or src/**/*.py.'),
      caseSensitive: z.boolean().optional().describe('Match upper and lower case exactly. Default: true.'),
      contextLines: z
        .number()
        .int()
        .min(0)
        .max(maxContext)
        .optional()
        .describe('Number of lines to show before and after each match.'),
      limit: limitArgument.describe(`Maximum number of matching lines. Default: ${defaultLimit}.`),
    }),
    output: z.strictObject({
      matches: z.array(
        z.strictObject({
          path: z.string().describe('Relative to the workspace.'),
          line: z.number().int(),
          column: z.number().int().describe('Column of the first match in the line, starting at 1.'),
          text: z.string().describe('The line; for a long line, the part around the match.'),
          before: z.array(line).optional(),
          after: z.array(line).optional(),
        }),
      ),
      truncated: truncatedSchema,
    }),
    async run(args, caller) {
      const { session, pattern, path = '.', caseSensitive = true, contextLines = 0, limit = defaultLimit } = args;
      const expression = parseExpression(pattern, caseSensitive);
      const glob = args.glob === undefined ? undefined : parseGlob(args.glob, 'glob');
      return access.withFiles(session, caller, 'session_grep_search', async (files) => {
        const found = await grepFiles(files, { expression, path, glob, contextLines, limit });
        const { stopped = null } = found;
        const advice = 'Use a narrower pattern, a path or a glob.';
        return withBlocks(
          { matches: listMatches(found, contextLines > 0), truncated: stopped },
          { type: 'text', text: [renderMatches(found), ...explainTruncation(stopped, advice)].join('\n') },
        );
      });
    },
  });
}

function listMatches({ files }: GrepResult, withContext: boolean) {
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

/** Renders matches file by file: `12: text`, nearby lines as `13- text`, each line once. */
function renderMatches({ files }: GrepResult): string {
  if (files.length === 0) return 'No line matches.';
  return files.map(({ path, matches }) => [escapeControls(path), ...renderLines(matches)].join('\n')).join('\n\n');
}

function renderLines(matches: readonly FoundMatch[]): string[] {
  const lines = new Map<number, string>();
  for (const { before, after } of matches) {
    for (const near of [...before, ...after]) lines.set(near.line, `${near.line}- ${toOneLine(near.text)}`);
  }
  for (const { line, text } of matches) lines.set(line, `${line}: ${toOneLine(text)}`);
  const numbers = [...lines.keys()].sort((a, b) => a - b);
  const hasContext = matches.some(({ before, after }) => before.length + after.length > 0);
  return numbers.flatMap((number, index) => {
    const isApart = hasContext && index > 0 && number !== (numbers[index - 1] as number) + 1;
    return [...(isApart ? ['--'] : []), lines.get(number) as string];
  });
}

/** Removes line breaks, so that content of a file cannot look like a line of this answer. */
export function toOneLine(text: string): string {
  return text.replace(/[\r\u0085\u2028\u2029]/g, ' ');
}
