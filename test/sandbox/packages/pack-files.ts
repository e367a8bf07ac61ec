/** A file of a tarball, or a link, as nobody would pack it by accident. */
export type PackedFile = { readonly content: string } | { readonly symlink: string } | { readonly hardlink: string };

const block = 512;

/** A tar archive with names and links exactly as given. */
export function packFiles(files: readonly (PackedFile & { readonly name: string })[]): Buffer {
  return Buffer.concat([...files.flatMap(partsOf), Buffer.alloc(2 * block)]);
}

function partsOf(file: PackedFile & { readonly name: string }): Buffer[] {
  const content = Buffer.from('content' in file ? file.content : '');
  const header = Buffer.alloc(block);
  const target = 'symlink' in file ? file.symlink : 'hardlink' in file ? file.hardlink : '';
  header.write(file.name, 0, 100);
  header.write('0000755', 100);
  header.write('0000000', 108);
  header.write('0000000', 116);
  header.write(octal(content.length, 11), 124);
  header.write('00000000000', 136);
  header.write('        ', 148);
  header.write('symlink' in file ? '2' : 'hardlink' in file ? '1' : '0', 156);
  header.write(target, 157, 100);
  header.write('ustar\u000000', 257, 'latin1');
  const sum = header.reduce((total, byte) => total + byte, 0);
  header.write(`${octal(sum, 6)}\0 `, 148);
  return [header, content, Buffer.alloc((block - (content.length % block)) % block)];
}

const octal = (value: number, digits: number): string => value.toString(8).padStart(digits, '0');
