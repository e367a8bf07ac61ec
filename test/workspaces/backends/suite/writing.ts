import { describe, expect, test } from 'vitest';
import { bytes, codeOf, contentOf, type Suite, treeOf } from './suite-workspace.ts';

export function describeWriting({ files, folder, open, ground, links }: Suite): void {
  describe('writing', () => {
    test('a new file comes with the folders on the way, one that is there is replaced and keeps its mode', async () => {
      const at = await folder();
      const first = await files().write(`${at}/a/b/f`, bytes('one'), { mode: 0o600 });
      expect(first).toMatchObject({
        path: `${at}/a/b/f`,
        kind: 'file',
        bytes: 3,
        mode: 0o600,
        created: true,
        folders: 2,
      });
      const second = await files().write(`${at}/a/b/f`, bytes('second'), { mode: 0o644 });
      expect(second).toMatchObject({ bytes: 6, mode: 0o600, created: false, folders: 0 });
      expect(second.version).not.toBe(first.version);
      expect(await files().stat(`${at}/a/b/f`)).toMatchObject({ version: second.version });
      expect(await contentOf(files(), `${at}/a/b/f`)).toBe('second');
    });

    test('what is expected decides', async () => {
      const at = await folder();
      const path = `${at}/f`;
      const first = await files().write(path, bytes('1'), { expected: 'absent' });
      expect(await codeOf(files().write(path, bytes('x'), { expected: 'absent' }))).toBe('FILE_EXISTS');
      const second = await files().write(path, bytes('2'), { expected: { version: first.version } });
      expect(await codeOf(files().write(path, bytes('x'), { expected: { version: first.version } }))).toBe(
        'FILE_CHANGED',
      );
      expect(await codeOf(files().write(path, bytes('x'), { expected: { version: 'no such' } }))).toBe('FILE_CHANGED');
      await files().remove(path);
      const gone = files().write(path, bytes('x'), { expected: { version: second.version } });
      expect(await codeOf(gone)).toBe('FILE_CHANGED');
      const never = files().write(`${at}/n/e/w`, bytes('x'), { expected: { version: second.version } });
      expect(await codeOf(never)).toBe('FILE_CHANGED');
      expect(await codeOf(files().write(at, bytes('x'), { expected: 'absent' }))).toBe('FILE_EXISTS');
      expect(await treeOf(files(), at)).toEqual([]);
    });

    test('the same content written again is another version', async () => {
      const at = await folder();
      const first = await files().write(`${at}/f`, bytes('same'));
      const second = await files().write(`${at}/f`, bytes('same'));
      expect(second.version).not.toBe(first.version);
    });

    test('a file that is too large is not written, nor a folder made for it', async () => {
      const at = await folder();
      const small = await open({ fileBytes: 10 });
      expect(await codeOf(small.write(`${at}/a/f`, bytes('01234567890')))).toBe('FILE_TOO_LARGE');
      expect(await treeOf(files(), at)).toEqual([]);
      expect(await small.write(`${at}/a/f`, bytes('0123456789'))).toMatchObject({ bytes: 10 });
    });

    test('a path that ends as a folder does is no file', async () => {
      const at = await folder();
      for (const path of [`${at}/new/`, `${at}/new/.`, `${at}/new/deep/..`, `${at}/new/deep/`]) {
        expect(await codeOf(files().write(path, bytes('')))).toBe('PATH_INVALID');
      }
      expect(await treeOf(files(), at)).toEqual([]);
    });

    test('bytes come back as they were', async () => {
      const at = await folder();
      const every = Uint8Array.from({ length: 70_000 }, (_, index) => (index * 7 + (index >> 8)) % 256);
      await files().write(`${at}/f`, every);
      const file = await files().open(`${at}/f`);
      expect(Buffer.compare(await file.read(0, 100_000), every)).toBe(0);
      expect(Buffer.compare(await file.read(49_000, 300), every.subarray(49_000, 49_300))).toBe(0);
      await file.close();
    });

    test('names are taken as they are written, long and odd ones too', async () => {
      const at = await folder();
      const names = [
        'n'.repeat(255),
        'é'.repeat(127),
        '日本語',
        'é',
        'e\u0301',
        ' ',
        '...',
        '~',
        'a\nb',
        '\\',
        '*',
        '😀',
        'İ',
      ];
      for (const name of names) await files().write(`${at}/${name}`, bytes(name));
      const { entries } = await files().list(at);
      expect(entries.map((entry) => entry.name)).toEqual([...names].sort());
      for (const name of names) expect(await contentOf(files(), `${at}/${name}`)).toBe(name);
    });

    test('folders may lie deep, but not endlessly', async () => {
      const at = await folder();
      const deep = `${at}/${'d/'.repeat(100)}f`;
      expect(await files().write(deep, bytes('deep'))).toMatchObject({ folders: 100, path: deep });
      expect(await contentOf(files(), deep)).toBe('deep');
      expect(await codeOf(files().stat(`${at}/${'d/../'.repeat(700)}d`))).toBe('PATH_INVALID');
      expect(await codeOf(files().write(`${at}/${'e/'.repeat(200)}f`, bytes('')))).toBe('PATH_INVALID');
    });

    test.runIf(links)('a link is written through, and stays', async () => {
      const at = await folder();
      await files().write(`${at}/real/f`, bytes('old'));
      await ground().link?.(`${at}/link`, 'real/f');
      await ground().link?.(`${at}/dangling`, 'real/new');
      expect(await files().write(`${at}/link`, bytes('new'))).toMatchObject({ path: `${at}/real/f`, created: false });
      expect(await files().write(`${at}/dangling`, bytes('made'))).toMatchObject({
        path: `${at}/real/new`,
        created: true,
      });
      expect((await files().stat(`${at}/link`, { link: true })).kind).toBe('link');
      expect(await contentOf(files(), `${at}/real/f`)).toBe('new');
      expect(await codeOf(files().write(`${at}/link`, bytes('x'), { expected: 'absent' }))).toBe('FILE_EXISTS');
    });
  });
}
