import { describe, expect, test } from 'vitest';
import { listTree, readContent, refusalCode, type Suite, toBytes } from './suite-workspace.ts';

export function describeWriting({ files, folder, open, workspace, links }: Suite): void {
  describe('writing', () => {
    test('a new file gets its parents, an existing one is replaced and keeps its mode', async () => {
      const at = await folder();
      const first = await files().write(`${at}/a/b/f`, toBytes('one'), { mode: 0o600 });
      expect(first).toMatchObject({
        path: `${at}/a/b/f`,
        kind: 'file',
        bytes: 3,
        mode: 0o600,
        created: true,
        folders: 2,
      });
      const second = await files().write(`${at}/a/b/f`, toBytes('second'), { mode: 0o644 });
      expect(second).toMatchObject({ bytes: 6, mode: 0o600, created: false, folders: 0 });
      expect(second.version).not.toBe(first.version);
      expect(await files().stat(`${at}/a/b/f`)).toMatchObject({ version: second.version });
      expect(await readContent(files(), `${at}/a/b/f`)).toBe('second');
    });

    test('the expected version decides', async () => {
      const at = await folder();
      const path = `${at}/f`;
      const first = await files().write(path, toBytes('1'), { expected: 'absent' });
      expect(await refusalCode(files().write(path, toBytes('x'), { expected: 'absent' }))).toBe('FILE_EXISTS');
      const second = await files().write(path, toBytes('2'), { expected: { version: first.version } });
      expect(await refusalCode(files().write(path, toBytes('x'), { expected: { version: first.version } }))).toBe(
        'FILE_CHANGED',
      );
      expect(await refusalCode(files().write(path, toBytes('x'), { expected: { version: 'no such' } }))).toBe(
        'FILE_CHANGED',
      );
      await files().remove(path);
      const gone = files().write(path, toBytes('x'), { expected: { version: second.version } });
      expect(await refusalCode(gone)).toBe('FILE_CHANGED');
      const never = files().write(`${at}/n/e/w`, toBytes('x'), { expected: { version: second.version } });
      expect(await refusalCode(never)).toBe('FILE_CHANGED');
      expect(await refusalCode(files().write(at, toBytes('x'), { expected: 'absent' }))).toBe('FILE_EXISTS');
      expect(await listTree(files(), at)).toEqual([]);
    });

    test('the same content written again is another version', async () => {
      const at = await folder();
      const first = await files().write(`${at}/f`, toBytes('same'));
      const second = await files().write(`${at}/f`, toBytes('same'));
      expect(second.version).not.toBe(first.version);
    });

    test('a file that is too large is not written, nor a folder made for it', async () => {
      const at = await folder();
      const small = await open({ fileBytes: 10 });
      expect(await refusalCode(small.write(`${at}/a/f`, toBytes('01234567890')))).toBe('FILE_TOO_LARGE');
      expect(await listTree(files(), at)).toEqual([]);
      expect(await small.write(`${at}/a/f`, toBytes('0123456789'))).toMatchObject({ bytes: 10 });
    });

    test('a path that ends like a folder is refused', async () => {
      const at = await folder();
      for (const path of [`${at}/new/`, `${at}/new/.`, `${at}/new/deep/..`, `${at}/new/deep/`]) {
        expect(await refusalCode(files().write(path, toBytes('')))).toBe('PATH_INVALID');
      }
      expect(await listTree(files(), at)).toEqual([]);
    });

    test('bytes are returned unchanged', async () => {
      const at = await folder();
      const every = Uint8Array.from({ length: 70_000 }, (_, index) => (index * 7 + (index >> 8)) % 256);
      await files().write(`${at}/f`, every);
      const file = await files().open(`${at}/f`);
      expect(Buffer.compare(await file.read(0, 100_000), every)).toBe(0);
      expect(Buffer.compare(await file.read(49_000, 300), every.subarray(49_000, 49_300))).toBe(0);
      await file.close();
    });

    test('long and unusual names are kept unchanged', async () => {
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
      for (const name of names) await files().write(`${at}/${name}`, toBytes(name));
      const { entries } = await files().list(at);
      expect(entries.map((entry) => entry.name)).toEqual([...names].sort());
      for (const name of names) expect(await readContent(files(), `${at}/${name}`)).toBe(name);
    });

    test('the depth of folders is limited', async () => {
      const at = await folder();
      const deep = `${at}/${'d/'.repeat(100)}f`;
      expect(await files().write(deep, toBytes('deep'))).toMatchObject({ folders: 100, path: deep });
      expect(await readContent(files(), deep)).toBe('deep');
      expect(await refusalCode(files().stat(`${at}/${'d/../'.repeat(700)}d`))).toBe('PATH_INVALID');
      expect(await refusalCode(files().write(`${at}/${'e/'.repeat(200)}f`, toBytes('')))).toBe('PATH_INVALID');
    });

    test.runIf(links)('a link is written through, and stays', async () => {
      const at = await folder();
      await files().write(`${at}/real/f`, toBytes('old'));
      await workspace().link?.(`${at}/link`, 'real/f');
      await workspace().link?.(`${at}/dangling`, 'real/new');
      expect(await files().write(`${at}/link`, toBytes('new'))).toMatchObject({ path: `${at}/real/f`, created: false });
      expect(await files().write(`${at}/dangling`, toBytes('made'))).toMatchObject({
        path: `${at}/real/new`,
        created: true,
      });
      expect((await files().stat(`${at}/link`, { link: true })).kind).toBe('link');
      expect(await readContent(files(), `${at}/real/f`)).toBe('new');
      expect(await refusalCode(files().write(`${at}/link`, toBytes('x'), { expected: 'absent' }))).toBe('FILE_EXISTS');
    });
  });
}
