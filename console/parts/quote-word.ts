const plainWord = /^[\w@%+:,./…-][\w@%+=:,./#…-]*$/;

/**
 * Quotes a word for a shell. Control characters are written as escapes: a terminal takes them for keys, and one that is
 * pasted could end the line and start another command. Not every shell knows $'…', so the shell calls printf.
 */
export function quoteWord(word: string): string {
  if (!/\p{Cc}/u.test(word)) return quoteShown(word);
  const escaped = word.replaceAll('\\', '\\\\').replace(/\p{Cc}/gu, escapeBytes);
  return `"$(printf %b ${quoteText(escaped)})"`;
}

/** Quotes a word of a command that is only shown: it keeps its characters. */
export function quoteShown(word: string): string {
  return plainWord.test(word) ? word : quoteText(word);
}

const quoteText = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`;

/** Writes the UTF-8 bytes of a character in octal, which also old shells read. */
function escapeBytes(character: string): string {
  const bytes = [...new TextEncoder().encode(character)];
  return bytes.map((byte) => `\\0${byte.toString(8).padStart(3, '0')}`).join('');
}
