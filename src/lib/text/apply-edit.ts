import { type FoundText, findText, type Strategy, type TextMatch } from './find-text.ts';
import { detectLineEnding, fromLf, toLf } from './line-endings.ts';

export interface TextEdit {
  readonly oldText: string;
  readonly newText: string;
  readonly replaceAll?: boolean | undefined;
}

export type EditOutcome =
  | { readonly kind: 'applied'; readonly text: string; readonly strategy: Strategy; readonly lines: readonly number[] }
  | { readonly kind: 'missing' }
  | { readonly kind: 'ambiguous'; readonly lines: readonly number[] }
  | { readonly kind: 'not-empty' }
  | { readonly kind: 'too-many' }
  | { readonly kind: 'too-large' };

/** Matches of an ambiguous edit are counted up to this number. */
export const maxReportedMatches = 1000;
const maxReplacements = 100_000;

/**
 * Replaces one text by another, literally. `lines` are the lines of the original on which matches begin. A result
 * longer than `maxLength` is not built: a long text in a hundred thousand places would exceed the memory.
 */
export function applyEdit(text: string, edit: TextEdit, maxLength = Number.POSITIVE_INFINITY): EditOutcome {
  if (edit.oldText === '') {
    if (text !== '') return { kind: 'not-empty' };
    return { kind: 'applied', text: edit.newText, strategy: 'exact', lines: [1] };
  }
  const found = findText(text, edit.oldText, edit.replaceAll ? maxReplacements + 1 : maxReportedMatches);
  if (found === undefined) return { kind: 'missing' };
  if (found.matches.length > maxReplacements) return { kind: 'too-many' };
  const matches = edit.replaceAll ? dropOverlaps(found.matches) : found.matches;
  const places = locateMatches(text, matches);
  const lines = places.map(({ line }) => line);
  if (!edit.replaceAll && matches.length > 1) return { kind: 'ambiguous', lines };

  const pieces: string[] = [];
  let from = 0;
  let length = text.length;
  for (const [i, match] of matches.entries()) {
    const fitted = fitReplacement(edit, found, match, places[i]?.ending ?? '\n');
    if (fitted === undefined) return { kind: 'missing' };
    length += fitted.length - (match.end - match.start);
    if (length > maxLength && fitted.length > match.end - match.start) return { kind: 'too-large' };
    pieces.push(text.slice(from, match.start), fitted);
    from = match.end;
  }
  pieces.push(text.slice(from));
  return { kind: 'applied', text: pieces.join(''), strategy: found.strategy, lines };
}

/** Adapts the new text to line ending and indentation of its place; undefined if the indentation does not fit. */
function fitReplacement(
  { oldText, newText }: TextEdit,
  { strategy }: FoundText,
  match: TextMatch,
  ending: string,
): string | undefined {
  // An exact match with carriage returns means them as they are.
  if (strategy === 'exact' && (oldText.includes('\r') || newText.includes('\r'))) return newText;
  let text = toLf(newText);
  if (match.withoutBreak && text.endsWith('\n')) text = text.slice(0, -1);
  if (match.indent !== undefined) {
    const { take, give } = match.indent;
    const lines = text.split('\n');
    if (lines.some((line) => line.trim() !== '' && !line.startsWith(take))) return undefined;
    text = lines.map((line) => (line.trim() === '' ? line : give + line.slice(take.length))).join('\n');
  }
  return fromLf(text, ending);
}

function dropOverlaps(matches: readonly TextMatch[]): TextMatch[] {
  let free = 0;
  return matches.filter(({ start, end }) => {
    if (start < free) return false;
    free = end;
    return true;
  });
}

/** Finds the line of each match and the line ending there: that of its line, else of the line before. */
function locateMatches(text: string, matches: readonly TextMatch[]): { line: number; ending: string }[] {
  let line = 1;
  let before = -1;
  let next = text.indexOf('\n');
  return matches.map(({ start }) => {
    while (next !== -1 && next < start) {
      line++;
      before = next;
      next = text.indexOf('\n', next + 1);
    }
    return { line, ending: text[(next === -1 ? before : next) - 1] === '\r' ? '\r\n' : '\n' };
  });
}

/** Replaces the whole content but keeps the line endings, unless the new content has its own. */
export function replaceWhole(before: string, content: string): string {
  return detectLineEnding(before) === 'crlf' && !content.includes('\r') ? fromLf(content, '\r\n') : content;
}
