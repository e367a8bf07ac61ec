import { isUtf8 } from 'node:buffer';

/** Larger files are not searched. */
export const largestSearched = 10 * 1024 * 1024;

/** Takes the place of what is no character: no expression fits it, for no line holds one. */
const noCharacter = '\n';

export interface FileText {
  readonly text: string;
  /** The line as it is searched: where the file is not UTF-8, what is no character fits nothing. */
  searched(line: string): string;
}

/** What a file says; undefined where it is not text. It is taken for what its first bytes say, else for UTF-8. */
export function textOf(bytes: Uint8Array): FileText | undefined {
  const [first, second] = bytes;
  if (first === 0xff && second === 0xfe) return unlessBinary(new TextDecoder('utf-16le').decode(bytes));
  if (first === 0xfe && second === 0xff) return unlessBinary(new TextDecoder('utf-16be').decode(bytes));
  if (bytes.includes(0)) return undefined;
  const text = new TextDecoder().decode(bytes);
  if (isUtf8(bytes)) return { text, searched: (line) => line };
  return { text, searched: (line) => line.replaceAll('\ufffd', noCharacter) };
}

function unlessBinary(text: string): FileText | undefined {
  return text.includes('\0') ? undefined : { text, searched: (line) => line };
}

export const isWide = ([first, second]: Uint8Array): boolean =>
  (first === 0xff && second === 0xfe) || (first === 0xfe && second === 0xff);
