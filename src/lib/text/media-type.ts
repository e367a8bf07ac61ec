const imageTypes: readonly { readonly type: string; readonly fits: (head: Buffer) => boolean }[] = [
  { type: 'image/png', fits: (head) => hasPrefix(head, '\x89PNG\r\n\x1a\n') },
  { type: 'image/jpeg', fits: (head) => hasPrefix(head, '\xff\xd8\xff') },
  { type: 'image/gif', fits: (head) => hasPrefix(head, 'GIF87a') || hasPrefix(head, 'GIF89a') },
  { type: 'image/webp', fits: (head) => hasPrefix(head, 'RIFF') && head.toString('latin1', 8, 12) === 'WEBP' },
];

/** Detects images that models can read by their first bytes, since names are unreliable. */
export function detectImageType(head: Uint8Array): string | undefined {
  const bytes = Buffer.from(head.buffer, head.byteOffset, Math.min(head.byteLength, 16));
  return imageTypes.find(({ fits }) => fits(bytes))?.type;
}

const binaryTypes: readonly (readonly [string, string])[] = [
  ['%PDF-', 'application/pdf'],
  ['PK\x03\x04', 'application/zip'],
  ['\x1f\x8b', 'application/gzip'],
  ['\x7fELF', 'application/x-elf'],
  ['\0asm', 'application/wasm'],
  ['SQLite format 3\0', 'application/vnd.sqlite3'],
];

const textTypes: ReadonlyMap<string, string> = new Map([
  ['css', 'text/css'],
  ['csv', 'text/csv'],
  ['html', 'text/html'],
  ['htm', 'text/html'],
  ['js', 'text/javascript'],
  ['mjs', 'text/javascript'],
  ['cjs', 'text/javascript'],
  ['json', 'application/json'],
  ['md', 'text/markdown'],
  ['svg', 'image/svg+xml'],
  ['toml', 'application/toml'],
  ['xml', 'application/xml'],
  ['yaml', 'application/yaml'],
  ['yml', 'application/yaml'],
]);

export function detectMediaType(name: string, head: Uint8Array, isText: boolean): string {
  if (isText) return textTypes.get(/\.([^./]+)$/.exec(name)?.[1]?.toLowerCase() ?? '') ?? 'text/plain';
  const bytes = Buffer.from(head.buffer, head.byteOffset, head.byteLength);
  return (
    detectImageType(head) ??
    binaryTypes.find(([beginning]) => hasPrefix(bytes, beginning))?.[1] ??
    'application/octet-stream'
  );
}

function hasPrefix(bytes: Buffer, beginning: string): boolean {
  return bytes.toString('latin1', 0, beginning.length) === beginning;
}
