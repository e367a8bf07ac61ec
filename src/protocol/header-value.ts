/**
 * MCP mirrors names into headers; values that a header cannot hold travel as `=?base64?…?=`
 * (MCP 2026-07-28, streamable HTTP, "Standard headers").
 */
const plain = /^[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?$/;
const encoded = /^=\?base64\?([A-Za-z0-9+/]*={0,2})\?=$/;

export function encodeHeaderValue(value: string): string {
  if (plain.test(value) && !value.startsWith('=?')) return value;
  return `=?base64?${Buffer.from(value).toString('base64')}?=`;
}

/** Undefined when the encoding is broken. */
export function decodeHeaderValue(value: string): string | undefined {
  if (!value.startsWith('=?')) return value;
  const parts = encoded.exec(value);
  if (parts === null) return undefined;
  const bytes = Buffer.from(parts[1] as string, 'base64');
  const text = bytes.toString('utf8');
  return Buffer.from(text).equals(bytes) ? text : undefined;
}
