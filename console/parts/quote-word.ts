const plainWord = /^[\w@%+:,./…-][\w@%+=:,./#…-]*$/;

/**
 * Quotes a word for a shell. Control characters are written as escapes: a terminal takes them for keys, and one that is
 * pasted could end the line and start another command.
 */
export function quoteWord(word: string): string {
  if (plainWord.test(word)) return word;
  if (!/\p{Cc}/u.test(word)) return `'${word.replaceAll("'", `'\\''`)}'`;
  return `$'${word.replace(/[\\']/g, '\\$&').replace(/\p{Cc}/gu, escapeBytes)}'`;
}

/** Writes the UTF-8 bytes of a character in octal, which also old shells read. */
function escapeBytes(character: string): string {
  const bytes = [...new TextEncoder().encode(character)];
  return bytes.map((byte) => `\\${byte.toString(8).padStart(3, '0')}`).join('');
}
