import { styleText } from 'node:util';
import { escapeControls } from '../../lib/text/escape-controls.ts';

export type Style = 'bold' | 'dim' | 'red' | 'green' | 'yellow' | 'cyan';

interface Output {
  readonly isTTY?: boolean;
}

/** Styles of words that name a state. A word that is not listed stays plain. */
const stateStyles: ReadonlyMap<string, Style> = new Map([
  ...['ok', 'yes', 'active', 'approved', 'running', 'ready', 'taken'].map((word) => [word, 'green'] as const),
  ...['weak', 'direct', 'changed', 'unapproved', 'starting', 'kept'].map((word) => [word, 'yellow'] as const),
  ...['missing', 'no', 'exposed', 'revoked', 'expired', 'failed', 'conflict'].map((word) => [word, 'red'] as const),
]);

/**
 * Styles a line for a terminal and escapes its control characters. The text stays plain where the output is no terminal,
 * with `NO_COLOR`, and with `TERM=dumb`.
 */
export function paintText(style: Style, text: string, output: Output = process.stdout): string {
  const plain = escapeControls(text);
  const { NO_COLOR, TERM } = process.env;
  if (output.isTTY !== true || NO_COLOR || TERM === 'dumb' || plain === '') return plain;
  // Node checks the stream itself otherwise, and differently from version to version.
  return styleText(style, plain, { validateStream: false });
}

/** Styles a word that names a state, such as `ok` or `missing`. Padding around the word is kept. */
export function paintState(word: string, output: Output = process.stdout): string {
  const style = stateStyles.get(word.trim());
  return style === undefined ? escapeControls(word) : paintText(style, word, output);
}
