import { createHash } from 'node:crypto';
import { closeSync, ftruncateSync, openSync, symlinkSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { counts } from '../../proof.ts';
import { createTestFiles, type TestFiles } from './file-tool-fixture.ts';

let all: TestFiles;

beforeEach(() => {
  all = createTestFiles();
});
afterEach(() => all.close());

interface Read {
  content: string | null;
  startLine: number;
  endLine: number;
  totalLines: number | null;
  nextLine: number | null;
  truncated: boolean;
  cutLines: number[];
  sha256: string | null;
  kind: string;
  encoding: string | null;
}
const read = (args: object) => all.data<Read>('read_file', args);
const sha256 = (content: string | Uint8Array) => createHash('sha256').update(content).digest('hex');

describe('text', () => {
  test('W1: is given as it is in the file, with its hash and its form', async () => {
    const text = 'one\r\ntwo\r\n\r\nfour é😀';
    all.put('src/a.md', text);
    const result = await all.call('read_file', { path: 'src/a.md' });
    expect(result.content).toEqual([{ type: 'text', text }]);
    expect(result.structuredContent).toEqual({
      path: 'src/a.md',
      kind: 'text',
      content: text,
      startLine: 1,
      endLine: 4,
      totalLines: 4,
      truncated: false,
      nextLine: null,
      cutLines: [],
      bytes: Buffer.byteLength(text),
      sha256: sha256(text),
      encoding: 'utf-8',
      bom: false,
      lineEnding: 'crlf',
      mimeType: 'text/markdown',
    });
  });

  test('W1: comes in ranges of lines, and says where to go on', async () => {
    all.put('a', 'one\ntwo\nthree\nfour\n');
    expect(await read({ path: 'a', startLine: 2, endLine: 3 })).toMatchObject({
      content: 'two\nthree\n',
      startLine: 2,
      endLine: 3,
      totalLines: 4,
      nextLine: 4,
      truncated: false,
    });
    const { content } = await all.call('read_file', { path: 'a', startLine: 2, endLine: 3 });
    expect(content[1]).toEqual({ type: 'text', text: '[Lines 2 to 3 of 4. Continue with startLine 4.]' });
    expect(await read({ path: 'a', startLine: 4, endLine: 99 })).toMatchObject({ content: 'four\n', nextLine: null });
  });

  test('no more than maxBytes, whole lines', async () => {
    all.put('a', '12345\n'.repeat(10));
    expect(await read({ path: 'a', maxBytes: 20 })).toMatchObject({
      content: '12345\n'.repeat(3),
      endLine: 3,
      nextLine: 4,
      truncated: true,
    });
    expect(await read({ path: 'a', maxBytes: 20, endLine: 3 })).toMatchObject({ truncated: false, nextLine: 4 });
    expect(await read({ path: 'a', maxBytes: 2 })).toMatchObject({ endLine: 1, nextLine: 2, cutLines: [1] });
  });

  test('long lines are cut, between characters', async () => {
    all.put('a', `short\n${'😀'.repeat(3000)}\n${'x'.repeat(2000)}\n${'é'.repeat(100_000)}`);
    const { content, cutLines, totalLines } = await read({ path: 'a' });
    expect({ cutLines, totalLines }).toEqual({ cutLines: [2, 4], totalLines: 4 });
    expect(content?.split('\n')).toEqual([
      'short',
      `${'😀'.repeat(1000)}… [cut; the line has 12001 bytes]`,
      'x'.repeat(2000),
      `${'é'.repeat(2000)}… [cut; the line has 200000 bytes]`,
      '',
    ]);
  });

  test('an empty file, and lines that are not there', async () => {
    all.put('empty', '');
    expect(await read({ path: 'empty' })).toMatchObject({ content: '', totalLines: 0, endLine: 0, nextLine: null });
    all.put('a', 'one');
    const beyond = await all.refused('read_file', { path: 'a', startLine: 5 });
    expect(beyond).toMatchObject({ code: 'REQUEST_INVALID', text: expect.stringContaining('"a" has 1 line') });
    expect(await all.refused('read_file', { path: 'a', startLine: 5, endLine: 4 })).toMatchObject({
      code: 'REQUEST_INVALID',
      text: expect.stringContaining('before startLine'),
    });
  });

  test.each([
    ['utf-8', Buffer.from('\ufeffa\nß\n')],
    ['utf-16le', Buffer.from('\ufeffa\nß\n', 'utf16le')],
    ['utf-16be', Buffer.from('\ufeffa\nß\n', 'utf16le').swap16()],
    ['utf-32le', Buffer.from(Uint32Array.from([0xfeff, 97, 10, 0xdf, 10]).buffer)],
  ])('%s with a mark', async (encoding, bytes) => {
    all.put('a', bytes);
    expect(await read({ path: 'a' })).toMatchObject({ content: 'a\nß\n', encoding, bom: true, sha256: sha256(bytes) });
    expect(await read({ path: 'a', startLine: 2 })).toMatchObject({ content: 'ß\n', totalLines: 2 });
  });

  test('any text read part by part is the whole of it', async () => {
    const lines = fc.array(fc.string({ unit: fc.constantFrom('a', 'é', '😀', ' ', '\r'), maxLength: 30 }), {
      maxLength: 40,
    });
    await fc.assert(
      fc.asyncProperty(
        lines,
        fc.constantFrom('\n', '\r\n'),
        fc.integer({ min: 130, max: 400 }),
        async (given, end, maxBytes) => {
          const text = given.join(end);
          all.put('any', text);
          let whole = '';
          for (let at: number | null = 1; at !== null; ) {
            const part: Read = await read({ path: 'any', startLine: at, maxBytes });
            whole += part.content;
            at = part.nextLine;
          }
          expect(whole).toBe(text);
        },
      ),
      { numRuns: counts(60, 3000) },
    );
  });
});

describe('what is no text', () => {
  test('W1: is described and not shown', async () => {
    all.put('a.zip', Buffer.from('PK\x03\x04\0\0', 'latin1'));
    const zip = await all.call('read_file', { path: 'a.zip' });
    expect(zip.structuredContent).toMatchObject({
      kind: 'binary',
      content: null,
      mimeType: 'application/zip',
      bytes: 6,
    });
    expect(zip.content).toEqual([
      { type: 'text', text: expect.stringMatching(/^a\.zip: application\/zip, 6 bytes\. It is not text/) },
    ]);
    all.put('latin1.txt', Buffer.from('caf\xe9', 'latin1'));
    const latin = await all.call('read_file', { path: 'latin1.txt' });
    expect(latin.structuredContent).toMatchObject({ kind: 'binary', sha256: sha256(Buffer.from('caf\xe9', 'latin1')) });
    expect(latin.content[0].text).toContain('not valid UTF-8');
  });

  test('W1: an image is shown as one, whatever its name', async () => {
    const png = Buffer.from('\x89PNG\r\n\x1a\nrest', 'latin1');
    all.put('notes.txt', png);
    const { content, structuredContent } = await all.call('read_file', { path: 'notes.txt' });
    expect(content[1]).toEqual({ type: 'image', data: png.toString('base64'), mimeType: 'image/png' });
    expect(structuredContent).toMatchObject({ kind: 'image', content: null, mimeType: 'image/png' });
    const descriptor = openSync(join(all.folder, 'large.png'), 'w');
    writeSync(descriptor, png);
    ftruncateSync(descriptor, 6_000_000);
    closeSync(descriptor);
    const large = await all.call('read_file', { path: 'large.png' });
    expect(large.content).toHaveLength(1);
    expect(large.content[0].text).toContain('too large to be shown');
  });

  test('W8: a folder, nothing, and what lies outside are refused with what to do', async () => {
    all.put('src/a.ts', 'x');
    symlinkSync('/etc/hostname', join(all.folder, 'out'));
    expect(await all.refused('read_file', { path: 'src' })).toMatchObject({
      code: 'FILE_WRONG_KIND',
      text: expect.stringContaining('session_list_dir'),
    });
    expect((await all.refused('read_file', { path: 'src/b.ts' })).code).toBe('FILE_NOT_FOUND');
    for (const path of ['out', '../x', '/etc/hostname', join(all.folder, 'src/a.ts')]) {
      const refused = await all.refused('read_file', { path });
      expect(refused.code).toBe('PATH_VIOLATION');
      expect(refused.text).not.toContain(all.folder);
    }
    expect((await all.refused('read_file', { path: '.env' })).code).toBe('PATH_PROTECTED');
  });
});

describe('large files', () => {
  /** Sparse, so that it costs no room: lines of a megabyte, each with its number. */
  function makeLarge(path: string, megabytes: number): void {
    const descriptor = openSync(join(all.folder, path), 'w');
    for (let i = 1; i <= megabytes; i++) writeSync(descriptor, `line ${i}\n`, i * 1024 * 1024 - 10);
    ftruncateSync(descriptor, megabytes * 1024 * 1024);
    writeSync(descriptor, 'text without zero bytes '.repeat(400), 0);
    closeSync(descriptor);
  }

  test('W6: ranges of a file of a gibibyte are read with little memory, and reading on does not begin anew', async () => {
    const megabytes = counts(48, 1024);
    makeLarge('large.log', megabytes);
    let bytes = 0;
    let most = 0;
    const { open } = all.files;
    Object.assign(all.files, {
      open: async (path: string) => {
        const file = await open(path);
        return {
          ...file,
          read: async (offset: number, length: number) => {
            most = Math.max(most, length);
            const piece = await file.read(offset, length);
            bytes += piece.length;
            return piece;
          },
        };
      },
    });
    const half = megabytes / 2;
    const first = await read({ path: 'large.log', startLine: half, endLine: half });
    expect(first).toMatchObject({ sha256: null, totalLines: null, nextLine: half + 1, cutLines: [half] });
    expect(bytes).toBeGreaterThan((half - 1) * 1024 * 1024);
    bytes = 0;
    expect(await read({ path: 'large.log', startLine: half + 1, endLine: half + 1 })).toMatchObject({
      endLine: half + 1,
    });
    expect(bytes).toBeLessThan(3 * 1024 * 1024);
    // A piece at a time, whatever the size of the file.
    expect(most).toBeLessThanOrEqual(256 * 1024);
    const last = await read({ path: 'large.log', startLine: megabytes });
    expect(last).toMatchObject({ nextLine: null });
  });

  test('a remembered offset is not used for another version', async () => {
    const lines = (word: string) => `${word.repeat(100)}\n`.repeat(200_000);
    all.put('a.log', lines('one'));
    const { nextLine } = await read({ path: 'a.log', endLine: 10 });
    expect(nextLine).toBe(11);
    all.put('a.log', `first\n${'x'.repeat(18_000_000)}\nthird\n`);
    expect(await read({ path: 'a.log', startLine: 3 })).toMatchObject({ content: 'third\n', nextLine: null });
  });
});
