import { isUtf8 } from 'node:buffer';

/** The text that a file holds; undefined when it holds something else. */
export function asText(content: Uint8Array | undefined): string | undefined {
  if (content === undefined || content.includes(0) || !isUtf8(content)) return undefined;
  return Buffer.from(content.buffer, content.byteOffset, content.byteLength).toString('utf8');
}
