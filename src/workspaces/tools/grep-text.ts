import { escapeControls } from '../../lib/text/escape-controls.ts';
import type { GrepFound } from '../search/grep.ts';
import type { FoundMatch } from '../search/grep-file.ts';

/** File by file: matches as `12: text`, lines near them as `13- text`, each line once. */
export function grepText({ files }: GrepFound): string {
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
