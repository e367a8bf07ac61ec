import { describe, expect, test } from 'vitest';
import { listTree, readContent, refusalCode, type Suite, toBytes } from './suite-workspace.ts';

export function describeTrees({ files, folder }: Suite): void {
  async function plant(...paths: string[]): Promise<void> {
    for (const path of paths) {
      if (path.endsWith('/')) await files().makeFolder(path);
      else await files().write(path, toBytes(path));
    }
  }

  describe('folders', () => {
    test('are made with their parents, and again without an error', async () => {
      const at = await folder();
      expect(await files().makeFolder(`${at}/a/b/c/`)).toEqual({ path: `${at}/a/b/c`, folders: 3 });
      expect(await files().makeFolder(`${at}/a/b`)).toEqual({ path: `${at}/a/b`, folders: 0 });
      await plant(`${at}/f`);
      expect(await refusalCode(files().makeFolder(`${at}/f`))).toBe('FILE_EXISTS');
      expect(await refusalCode(files().makeFolder(`${at}/f/x`))).toBe('FILE_WRONG_KIND');
    });

    test('are listed by name, with the requested facts', async () => {
      const at = await folder();
      await plant(`${at}/b`, `${at}/a/`, `${at}/B`, `${at}/a/inner`, `${at}/c`);
      const plain = await files().list(at);
      expect(plain).toEqual({
        path: at,
        more: false,
        entries: [
          { name: 'B', kind: 'file' },
          { name: 'a', kind: 'folder' },
          { name: 'b', kind: 'file' },
          { name: 'c', kind: 'file' },
        ],
      });
      const { entries } = await files().list(at, { facts: true });
      expect(entries[0]).toEqual({
        name: 'B',
        kind: 'file',
        bytes: at.length + 2,
        modifiedMs: (await files().stat(`${at}/B`)).modifiedMs,
      });
      expect(await files().list(at, { limit: 2 })).toMatchObject({
        entries: [{ name: 'B' }, { name: 'a' }],
        more: true,
      });
      expect(await files().list(at, { limit: 4 })).toMatchObject({ entries: { length: 4 }, more: false });
      expect(await files().list(at, { limit: 0 })).toEqual({ path: at, entries: [], more: true });
    });
  });

  describe('removing', () => {
    test('takes a file or an empty folder, and more only with recursive', async () => {
      const at = await folder();
      await plant(`${at}/a/b/f`, `${at}/a/g`, `${at}/empty/`);
      expect(await files().remove(`${at}/a/g`)).toEqual({ path: `${at}/a/g`, kind: 'file', entries: 1 });
      expect(await files().remove(`${at}/empty`)).toEqual({ path: `${at}/empty`, kind: 'folder', entries: 1 });
      expect(await refusalCode(files().remove(`${at}/a`))).toBe('FOLDER_NOT_EMPTY');
      expect(await files().remove(`${at}/a`, { recursive: true })).toEqual({
        path: `${at}/a`,
        kind: 'folder',
        entries: 3,
      });
      expect(await listTree(files(), at)).toEqual([]);
    });

    test('of too many entries leaves the whole folder', async () => {
      const at = await folder();
      await plant(...Array.from({ length: 6 }, (_, index) => `${at}/tree/${index}/f`));
      const before = await listTree(files(), at);
      const refused = files().remove(`${at}/tree`, { recursive: true, maxEntries: 11 });
      expect(await refusalCode(refused)).toBe('FILE_TOO_LARGE');
      expect(await listTree(files(), at)).toEqual(before);
      expect(await files().remove(`${at}/tree`, { recursive: true, maxEntries: 12 })).toMatchObject({ entries: 13 });
    });
  });

  describe('moving', () => {
    test('renames a file or a folder, and makes missing parents', async () => {
      const at = await folder();
      await plant(`${at}/f`, `${at}/tree/a/g`);
      expect(await files().move(`${at}/f`, `${at}/x/y/f2`)).toEqual({
        from: `${at}/f`,
        to: `${at}/x/y/f2`,
        kind: 'file',
        folders: 2,
      });
      expect(await files().move(`${at}/tree/`, `${at}/x/tree2/`)).toMatchObject({ kind: 'folder', folders: 0 });
      expect(await listTree(files(), at)).toEqual([
        `${at}/x/`,
        `${at}/x/tree2/`,
        `${at}/x/tree2/a/`,
        `${at}/x/tree2/a/g`,
        `${at}/x/y/`,
        `${at}/x/y/f2`,
      ]);
      expect(await readContent(files(), `${at}/x/y/f2`)).toBe(`${at}/f`);
    });

    test('keeps content, mode and version', async () => {
      const at = await folder();
      await files().write(`${at}/f`, toBytes('x'), { mode: 0o750 });
      await files().move(`${at}/f`, `${at}/g`);
      expect(await files().stat(`${at}/g`)).toMatchObject({ mode: 0o750, bytes: 1 });
    });

    test('replaces only with overwrite, and only the same kind', async () => {
      const at = await folder();
      await plant(`${at}/f`, `${at}/g`, `${at}/empty/`, `${at}/full/x`, `${at}/tree/y`);
      for (const to of ['g', 'empty', 'full', 'f']) {
        expect(await refusalCode(files().move(`${at}/f`, `${at}/${to}`)), to).toBe('FILE_EXISTS');
      }
      expect(await refusalCode(files().move(`${at}/tree`, `${at}/empty`))).toBe('FILE_EXISTS');
      const over = { overwrite: true };
      expect(await refusalCode(files().move(`${at}/f`, `${at}/empty`, over))).toBe('FILE_WRONG_KIND');
      expect(await refusalCode(files().move(`${at}/tree`, `${at}/g`, over))).toBe('FILE_WRONG_KIND');
      expect(await refusalCode(files().move(`${at}/tree`, `${at}/full`, over))).toBe('FOLDER_NOT_EMPTY');
      await files().move(`${at}/f`, `${at}/f`, over);
      await files().move(`${at}/f`, `${at}/g`, over);
      await files().move(`${at}/tree`, `${at}/empty`, over);
      expect(await listTree(files(), at)).toEqual([
        `${at}/empty/`,
        `${at}/empty/y`,
        `${at}/full/`,
        `${at}/full/x`,
        `${at}/g`,
      ]);
      expect(await readContent(files(), `${at}/g`)).toBe(`${at}/f`);
    });

    test('refuses a folder into itself, and a file below a file', async () => {
      const at = await folder();
      await plant(`${at}/tree/y`, `${at}/f`);
      const before = await listTree(files(), at);
      expect(await refusalCode(files().move(`${at}/tree`, `${at}/tree/sub`))).toBe('PATH_INVALID');
      expect(await refusalCode(files().move(`${at}/tree`, `${at}/tree/sub`, { overwrite: true }))).toBe('PATH_INVALID');
      expect(await refusalCode(files().move(`${at}/tree`, `${at}/f/sub`))).toBe('FILE_WRONG_KIND');
      expect(await refusalCode(files().move(`${at}/f`, `${at}/new/`))).toBe('FILE_NOT_FOUND');
      expect(await listTree(files(), at)).toEqual(before);
    });
  });
}
