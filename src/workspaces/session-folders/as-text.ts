import { isUtf8 } from 'node:buffer';

/** More lines are not compared one by one: that would take time which belongs to others. */
const mostLines = 400_000;

/** The text that a file holds; undefined when it holds something else, or too many lines. */
export function asText(content: Uint8Array | undefined): string | undefined {
  if (content === undefined || content.includes(0) || !isUtf8(content)) return undefined;
  const bytes = Buffer.from(content.buffer, content.byteOffset, content.byteLength);
  let lines = 0;
  for (let at = bytes.indexOf(10); at !== -1; at = bytes.indexOf(10, at + 1)) if (++lines > mostLines) return undefined;
  return bytes.toString('utf8');
}
