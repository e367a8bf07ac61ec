/**
 * Splits a command into its words, as a shell does with blanks, quotation marks and backslashes. Nothing is replaced.
 * Returns undefined if a quotation mark is not closed.
 */
export function splitCommand(text: string): readonly string[] | undefined {
  const words: string[] = [];
  let word: string | undefined;
  let quote = '';
  for (let at = 0; at < text.length; at++) {
    const char = text[at] as string;
    const next = text[at + 1];
    if (quote !== '') {
      if (char === quote) quote = '';
      else if (char === '\\' && quote === '"' && (next === '"' || next === '\\')) word = `${word}${text[++at]}`;
      else word = `${word}${char}`;
    } else if (char === '"' || char === "'") {
      quote = char;
      word ??= '';
    } else if (/\s/.test(char)) {
      if (word !== undefined) words.push(word);
      word = undefined;
    } else {
      word = `${word ?? ''}${char === '\\' && next !== undefined ? text[++at] : char}`;
    }
  }
  if (quote !== '') return undefined;
  if (word !== undefined) words.push(word);
  return words;
}
