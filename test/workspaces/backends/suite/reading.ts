import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { describe, expect, test } from 'vitest';
import { counts, proof } from '../../../proof.ts';
import { readContent, refusalCode, refusalMessage, type Suite, toBytes, toText } from './suite-workspace.ts';

export function describeReading({ files, folder, workspace, links }: Suite): void {
  describe('reading', () => {
    test('a file is described, and any part of it is read', async () => {
      const at = await folder();
      await files().write(`${at}/a/f.txt`, toBytes('0123456789'), { mode: 0o640 });
      const facts = await files().stat(`${at}/./a//f.txt`);
      expect(facts).toMatchObject({ path: `${at}/a/f.txt`, kind: 'file', bytes: 10, mode: 0o640 });
      expect(facts.version).not.toBe('');
      const file = await files().open(`${at}/a/../a/f.txt`);
      expect(file.facts).toEqual(facts);
      expect(toText(await file.read(0, 3))).toBe('012');
      expect(toText(await file.read(8, 100))).toBe('89');
      expect(toText(await file.read(10, 1))).toBe('');
      expect(toText(await file.read(1000, 1))).toBe('');
      await expect(file.read(-1, 1)).rejects.toThrow(RangeError);
      await expect(file.read(0, 0.5)).rejects.toThrow(RangeError);
      await file.close();
      expect(await files().stat(at)).toMatchObject({ path: at, kind: 'folder' });
      expect(await files().stat('.')).toMatchObject({ path: '.', kind: 'folder' });
    });

    test('an open file keeps its content whatever becomes of its name', async () => {
      const at = await folder();
      await files().write(`${at}/f`, toBytes('old'));
      const file = await files().open(`${at}/f`);
      await files().write(`${at}/f`, toBytes('newer'));
      expect(toText(await file.read(0, 10))).toBe('old');
      await files().remove(`${at}/f`);
      expect(toText(await file.read(0, 10))).toBe('old');
      await file.close();
    });

    test('an empty file is a file', async () => {
      const at = await folder();
      expect(await files().write(`${at}/empty`, toBytes(''))).toMatchObject({ bytes: 0, created: true });
      expect(await readContent(files(), `${at}/empty`)).toBe('');
    });

    test('a missing file is reported with similar names', async () => {
      const at = await folder();
      for (const name of ['index.ts', 'index.js', 'readme.md']) await files().write(`${at}/src/${name}`, toBytes(''));
      expect(await refusalCode(files().open(`${at}/src/indx.ts`))).toBe('FILE_NOT_FOUND');
      expect(await refusalMessage(files().open(`${at}/src/indx.ts`))).toContain(`"${at}/src/index.ts"`);
      expect(await refusalMessage(files().stat(`${at}/src/INDEX.TS`))).toContain(`"${at}/src/index.ts"`);
      const deep = await refusalMessage(files().open(`${at}/scr/deeper/f`));
      expect(deep).toContain(`"${at}"`);
      expect(deep).toContain(`"${at}/src"`);
      expect(await refusalCode(files().list(`${at}/none`))).toBe('FILE_NOT_FOUND');
      expect(await refusalCode(files().remove(`${at}/none`))).toBe('FILE_NOT_FOUND');
      expect(await refusalCode(files().move(`${at}/none`, `${at}/x`))).toBe('FILE_NOT_FOUND');
    });

    test('an entry of another kind is refused as such', async () => {
      const at = await folder();
      await files().write(`${at}/f`, toBytes('x'));
      expect(await refusalCode(files().open(at))).toBe('FILE_WRONG_KIND');
      expect(await refusalCode(files().list(`${at}/f`))).toBe('FILE_WRONG_KIND');
      expect(await refusalCode(files().open(`${at}/f/`))).toBe('FILE_WRONG_KIND');
      expect(await refusalCode(files().stat(`${at}/f/x`))).toBe('FILE_WRONG_KIND');
      expect(await refusalCode(files().write(`${at}/f/x`, toBytes('')))).toBe('FILE_WRONG_KIND');
      expect(await refusalCode(files().write(at, toBytes('')))).toBe('FILE_WRONG_KIND');
    });

    test('invalid paths and paths that lead out are refused by every operation', async () => {
      const at = await folder();
      await files().write(`${at}/f`, toBytes('x'));
      const hostile: Record<string, readonly unknown[]> = {
        PATH_VIOLATION: ['/etc/passwd', '..', '../x', `${at}/../../x`, '//x', '/'],
        PATH_INVALID: ['', 'a\0b', `${at}/\ud800`, 'n'.repeat(256), 'é'.repeat(128), 'x/'.repeat(3000), 7, undefined],
      };
      for (const [code, paths] of Object.entries(hostile)) {
        for (const path of paths as readonly string[]) {
          const works = {
            stat: files().stat(path),
            open: files().open(path),
            list: files().list(path),
            write: files().write(path, toBytes('')),
            absent: files().write(path, toBytes(''), { expected: 'absent' }),
            makeFolder: files().makeFolder(path),
            remove: files().remove(path),
            tree: files().remove(path, { recursive: true }),
            from: files().move(path, `${at}/new`),
            to: files().move(`${at}/f`, path),
          };
          const codes = await Promise.all(Object.values(works).map(refusalCode));
          for (const [index, what] of Object.keys(works).entries()) {
            expect(codes[index], `${what} ${String(path).slice(0, 40)}`).toBe(code);
          }
        }
      }
      expect((await files().list(at)).entries).toMatchObject([{ name: 'f' }]);
    });

    test('the workspace itself is neither written, moved nor removed', async () => {
      const at = await folder();
      for (const path of ['.', `${at}/..`, './']) {
        expect(await refusalCode(files().remove(path, { recursive: true }))).toBe('PATH_VIOLATION');
        expect(await refusalCode(files().move(path, `${at}/x`))).toBe('PATH_VIOLATION');
        expect(await refusalCode(files().write(path, toBytes('')))).toBe('PATH_INVALID');
      }
    });

    test('an absolute path is answered with the relative one', async () => {
      const at = await folder();
      await files().write(`${at}/f`, toBytes('x'));
      await expect(files().open(`/${at}/f`)).rejects.toMatchObject({ hint: expect.stringContaining(`"${at}/f"`) });
      expect(await refusalMessage(files().open('/etc/passwd'))).not.toContain('etc');
    });

    test('a large file is read in parts, without holding more than was asked for', async () => {
      const at = await folder();
      const mebibytes = counts(3, 64);
      await files().write(`${at}/large`, createPattern(mebibytes * 1_048_576));
      const file = await files().open(`${at}/large`);
      const before = proof ? countHeldBytes() : 0;
      for (let offset = 0; offset < file.facts.bytes; offset += 65_536) {
        const part = await file.read(offset, 65_536);
        expect(part.length).toBe(65_536);
        expect(part.buffer.byteLength).toBeLessThan(2 * 1_048_576);
        expect(part[0]).toBe(byteAt(offset));
        expect(part.at(-1)).toBe(byteAt(offset + 65_535));
      }
      // Kept whole it would stay held for as long as the file is open; what else the process holds passes.
      const most = before + mebibytes * 1_048_576 * 0.75;
      if (proof) await expect.poll(countHeldBytes, { timeout: 20_000 }).toBeLessThan(most);
      await file.close();
      await files().remove(`${at}/large`);
    });

    test.runIf(links)('links are followed inside, and described themselves on request', async () => {
      const at = await folder();
      await files().write(`${at}/real/f`, toBytes('real'));
      await workspace().link?.(`${at}/to-file`, 'real/f');
      await workspace().link?.(`${at}/to-folder`, 'real');
      await workspace().link?.(`${at}/out`, '../../../outside');
      await workspace().link?.(`${at}/absolute`, '/etc/passwd');
      await workspace().link?.(`${at}/loop`, 'loop');
      expect(await files().stat(`${at}/to-file`)).toMatchObject({ path: `${at}/real/f`, kind: 'file' });
      expect(await files().stat(`${at}/to-file`, { link: true })).toMatchObject({
        path: `${at}/to-file`,
        kind: 'link',
      });
      expect(await readContent(files(), `${at}/to-folder/f`)).toBe('real');
      expect((await files().list(`${at}/to-folder`)).path).toBe(`${at}/real`);
      for (const name of ['out', 'absolute'])
        expect(await refusalCode(files().open(`${at}/${name}`))).toBe('PATH_VIOLATION');
      expect(await refusalCode(files().open(`${at}/loop`))).toBe('PATH_INVALID');
      expect((await files().remove(`${at}/out`)).kind).toBe('link');
    });
  });
}

function countHeldBytes(): number {
  setFlagsFromString('--expose-gc');
  (runInNewContext('gc') as () => void)();
  const { heapUsed, arrayBuffers } = process.memoryUsage();
  return heapUsed + arrayBuffers;
}

const byteAt = (offset: number): number => (offset * 31 + (offset >>> 16)) % 251;

function createPattern(length: number): Uint8Array {
  const content = new Uint8Array(length);
  for (let offset = 0; offset < length; offset++) content[offset] = byteAt(offset);
  return content;
}
