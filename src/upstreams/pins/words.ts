import { homedir } from 'node:os';
import { fileURLToPath } from 'node:url';

/** No path is longer. */
const longest = 4096;

/**
 * Every word that an argument or the value of a variable may be read as: the whole of it, what follows an option, the
 * words of a shell's or another language's text, and each of them without the encoding of an address.
 */
export function wordsIn(text: string): string[] {
  const texts = text.includes('%') ? [text, decoded(text)] : [text];
  const words = new Set<string>();
  for (const each of texts) {
    const parts = [
      each,
      ...shellWords(each),
      ...each.split(/[\s'"`;|&<>(){}[\],\\]+/),
      ...each.split(/[\s'"`;|&<>(){}[\],\\=:@]+/),
    ];
    for (const part of parts) for (const word of formsOf(part)) words.add(word);
  }
  return [...words].filter((word) => word !== '' && word.length < longest && !word.includes('\0'));
}

/** The words as a shell takes them: quotes and backslashes removed, operators between them. */
function shellWords(text: string): string[] {
  const piece = /'[^']*'|"(?:[^"\\]|\\.)*"|\\.|[^\s'"\\;|&<>()`]+/gsy;
  const words: string[] = [];
  let word = '';
  for (let at = 0; at < text.length; ) {
    piece.lastIndex = at;
    const found = piece.exec(text)?.[0];
    if (found === undefined) {
      words.push(word);
      word = '';
      at++;
      continue;
    }
    word += unquoted(found);
    at += found.length;
  }
  return [...words, word];
}

function unquoted(piece: string): string {
  if (piece.startsWith("'")) return piece.slice(1, -1);
  if (piece.startsWith('"')) return piece.slice(1, -1).replace(/\\(["\\$`])/g, '$1');
  return piece.startsWith('\\') ? piece.slice(1) : piece;
}

/** A word itself, the value that is part of an option (`--import=x`, `-r./x`), and the file that an address means. */
function formsOf(word: string): string[] {
  const equals = word.indexOf('=');
  const values = equals === -1 ? [word] : [word, word.slice(equals + 1)];
  if (/^-[^-]/.test(word)) values.push(word.slice(2));
  if (word.startsWith('-') && word.includes('/')) values.push(word.slice(word.search(/\.{0,2}\//)));
  return values.flatMap((value) => {
    const plain = value.replace(/[?#].*$/s, '');
    const forms = plain === value ? [value] : [value, plain];
    return forms.flatMap((form) => [form, ...fileOf(form), ...fromKnownFolder(form)]);
  });
}

function fileOf(word: string): string[] {
  if (!/^file:/i.test(word)) return [];
  try {
    return [fileURLToPath(new URL(word))];
  } catch {
    return [];
  }
}

/** The paths that a shell expands `~/x`, `$HOME/x` and `$PWD/x` to. */
function fromKnownFolder(word: string): string[] {
  const [, folder = '', rest = ''] = /^(~|\$HOME|\$\{HOME\}|\$PWD|\$\{PWD\})\/+(.*)$/s.exec(word) ?? [];
  if (folder === '') return [];
  return [folder.includes('PWD') ? rest : `${homedir()}/${rest}`];
}

function decoded(text: string): string {
  // A percent sign that encodes nothing stays; the rest is decoded all the same.
  return text.replace(/(?:%[0-9a-f]{2})+/gi, (codes) => Buffer.from(codes.replaceAll('%', ''), 'hex').toString('utf8'));
}
