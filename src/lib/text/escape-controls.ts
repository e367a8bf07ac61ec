import { stripVTControlCharacters } from 'node:util';
import { replaceHidden } from './hidden-characters.ts';

/** Escapes invisible characters: text from outside must not move a cursor, hide itself or forge lines. */
export function escapeControls(text: string): string {
  return replaceHidden(text, (character) => {
    const hex = (character.codePointAt(0) as number).toString(16);
    return hex.length > 4 ? `\\u{${hex}}` : `\\u${hex.padStart(4, '0')}`;
  });
}

/** Turns a line of a terminal into plain text: colours are dropped, tabs become blanks, the rest is escaped. */
export function toPlainLine(text: string): string {
  return escapeControls(stripVTControlCharacters(text).replaceAll('\t', '    '));
}
