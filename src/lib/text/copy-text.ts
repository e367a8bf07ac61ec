/**
 * Copies a text. A part of a text keeps the whole one in memory, however short it is, so a part that outlives it is
 * copied.
 */
export function copyText(text: string): string {
  return Buffer.from(text, 'utf16le').toString('utf16le');
}
