/** What a small archive holds; folders and links have no content. */
export type TarEntry =
  | { readonly name: string; readonly kind: 'folder'; readonly owner?: { readonly uid: number; readonly gid: number } }
  | { readonly name: string; readonly kind: 'file'; readonly content: string }
  | { readonly name: string; readonly kind: 'link'; readonly target: string };

const block = 512;
const kinds = { file: '0', link: '2', folder: '5' } as const;

/** Always the same bytes for the same entries. Throws for a name longer than the old format holds. */
export function tarOf(entries: readonly TarEntry[]): Buffer {
  return Buffer.concat([...entries.flatMap(partsOf), Buffer.alloc(2 * block)]);
}

function partsOf(entry: TarEntry): Buffer[] {
  const content = Buffer.from(entry.kind === 'file' ? entry.content : '');
  const header = Buffer.alloc(block);
  put(header, entry.name, 0, 100);
  put(header, entry.kind === 'folder' ? '0000755' : '0000644', 100, 8);
  const { uid, gid } = (entry.kind === 'folder' ? entry.owner : undefined) ?? { uid: 0, gid: 0 };
  put(header, octal(uid, 7), 108, 8);
  put(header, octal(gid, 7), 116, 8);
  put(header, octal(content.length, 11), 124, 12);
  put(header, '00000000000', 136, 12);
  put(header, '        ', 148, 8);
  put(header, kinds[entry.kind], 156, 1);
  if (entry.kind === 'link') put(header, entry.target, 157, 100);
  put(header, 'ustar\u000000', 257, 8);
  const sum = header.reduce((total, byte) => total + byte, 0);
  put(header, `${octal(sum, 6)}\0 `, 148, 8);
  return [header, content, Buffer.alloc((block - (content.length % block)) % block)];
}

const octal = (value: number, digits: number): string => value.toString(8).padStart(digits, '0');

function put(header: Buffer, text: string, at: number, room: number): void {
  const bytes = Buffer.from(text);
  if (bytes.length > room) throw new Error(`This is too long for a container: ${text}`);
  bytes.copy(header, at);
}
