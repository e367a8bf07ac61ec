import { stripVTControlCharacters } from 'node:util';

/** Escapes invisible characters: text from outside must not move a cursor, hide itself or forge lines. */
export function escapeControls(text: string): string {
  return text.replace(
    /[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]/g,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}

/** Turns a line of a terminal into plain text: colours are dropped, tabs become blanks, the rest is escaped. */
export function toPlainLine(text: string): string {
  return escapeControls(stripVTControlCharacters(text).replaceAll('\t', '    '));
}
