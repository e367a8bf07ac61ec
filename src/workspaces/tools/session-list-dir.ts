import * as z from 'zod';
import { escapeControls } from '../../lib/text/escape-controls.ts';
import { defineTool, sessionArgument, type Tool, withBlocks } from '../../sessions/tools/tool.ts';
import { invalidCursorError, type PageCursors } from '../../stores/page-cursors.ts';
import { relativeTo } from '../search/ignore-rules.ts';
import { createSearchBudget } from '../search/search-budget.ts';
import { type WalkedEntry, walkFiles } from '../search/walk-files.ts';
import type { FileAccess } from './file-access.ts';
import { describeEntry, entrySchema, explainTruncation, folderArgument, truncatedSchema } from './file-schemas.ts';

const kindMarks = { file: '', folder: '/', link: ' (link)', special: ' (device, pipe or socket)' } as const;
const pageEntries = 500;
const defaultDepth = 2;

export function sessionListDir(access: FileAccess, cursors: PageCursors): Tool {
  return defineTool({
    name: 'session_list_dir',
    title: 'List a folder',
    description:
      'Lists a folder of the workspace as a tree with sizes. Skips .git and files ignored by .gitignore unless includeIgnored is set. Links are shown but not followed.',
    effect: 'reads',
    input: z.strictObject({
      session: sessionArgument,
      path: folderArgument.describe('Relative to the workspace. Default: the workspace itself.'),
      depth: z.number().int().min(1).max(20).optional().describe(`Number of folder levels. Default: ${defaultDepth}.`),
      includeIgnored: z.boolean().optional().describe('Also list ignored files.'),
      cursor: z.string().min(1).max(8192).optional().describe('Value of "next" from the previous page.'),
    }),
    output: z.strictObject({
      path: z.string(),
      entries: z.array(entrySchema),
      next: z.string().nullable().describe('Cursor for the next page; null on the last page.'),
      truncated: truncatedSchema,
    }),
    async run(args, caller) {
      const { path = '.', depth = defaultDepth, includeIgnored = false } = args;
      return access.withFiles(args.session, caller, 'session_list_dir', async (files) => {
        const { path: start } = await files.stat(path);
        const bindings = ['session_list_dir', caller.session.id, start];
        const after = args.cursor === undefined ? undefined : await cursors.open(args.cursor, bindings);
        if (args.cursor !== undefined && after === undefined) throw invalidCursorError();
        const budget = createSearchBudget();
        const options = { budget, depth, includeIgnored, facts: true, ...(after === undefined ? {} : { after }) };
        const found: WalkedEntry[] = [];
        for await (const some of walkFiles(files, start, options)) {
          found.push(...some.slice(0, pageEntries + 1 - found.length));
          if (found.length > pageEntries) break;
        }
        const entries = found.slice(0, pageEntries);
        // The position is the last path of a page, so that the next page goes on after it although entries come and go.
        const next =
          found.length > pageEntries
            ? await cursors.seal(relativeTo(start, (entries.at(-1) as WalkedEntry).path), bindings)
            : null;
        const stopped = budget.stopped ?? null;
        const notes = [
          ...(next === null ? [] : ['[There is more: pass "next" as the cursor, or list a subfolder.]']),
          ...explainTruncation(stopped, 'List a subfolder.'),
        ];
        const tree = entries.length === 0 ? '(nothing)' : renderTree(start, entries);
        return withBlocks(
          { path: start, entries: entries.map(describeEntry), next, truncated: stopped },
          { type: 'text', text: [`${escapeControls(start)}/`, tree, ...notes].join('\n') },
        );
      });
    },
  });
}

/** Renders entries as an indented tree. A name is one line whatever it contains, so that it cannot fake an entry. */
function renderTree(start: string, entries: readonly WalkedEntry[]): string {
  const rendered = new Set<string>();
  const lines: string[] = [];
  for (const entry of entries) {
    const path = relativeTo(start, entry.path);
    const names = path.split('/');
    const depth = names.length - 1;
    // A page may begin inside a folder, whose name it then needs.
    for (let above = 0; above < depth; above++) {
      const folder = names.slice(0, above + 1).join('/');
      if (rendered.has(folder)) continue;
      rendered.add(folder);
      lines.push(`${'  '.repeat(above)}${escapeControls(names[above] as string)}/`);
    }
    if (entry.kind === 'folder') rendered.add(path);
    lines.push(`${'  '.repeat(depth)}${renderEntry(entry, names[depth] as string)}`);
  }
  return lines.join('\n');
}

function renderEntry({ kind, bytes, ignored, closed }: WalkedEntry, name: string): string {
  const size = kind === 'file' && bytes !== undefined ? ` (${renderSize(bytes)})` : '';
  return `${escapeControls(name)}${kindMarks[kind]}${size}${closed ? ' (closed)' : ''}${ignored ? ' (ignored)' : ''}`;
}

function renderSize(bytes: number): string {
  if (bytes < 1024) return `${bytes} B`;
  const units = ['KiB', 'MiB', 'GiB', 'TiB'];
  const power = Math.min(units.length, Math.floor(Math.log2(bytes) / 10));
  return `${(bytes / 1024 ** power).toFixed(1)} ${units[power - 1]}`;
}
