import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { describe, expect, test } from 'vitest';
import { counts, proof } from '../../../proof.ts';
import { bytes, codeOf, contentOf, messageOf, type Suite, text } from './suite-workspace.ts';

export function describeReading({ files, folder, ground, links }: Suite): void {
  describe('reading', () => {
    test('a file is told of, and read in any part', async () => {
      const at = await folder();
      await files().write(`${at}/a/f.txt`, bytes('0123456789'), { mode: 0o640 });
      const facts = await files().stat(`${at}/./a//f.txt`);
      expect(facts).toMatchObject({ path: `${at}/a/f.txt`, kind: 'file', bytes: 10, mode: 0o640 });
      expect(facts.version).not.toBe('');
      const file = await files().open(`${at}/a/../a/f.txt`);
      expect(file.facts).toEqual(facts);
      expect(text(await file.read(0, 3))).toBe('012');
      expect(text(await file.read(8, 100))).toBe('89');
      expect(text(await file.read(10, 1))).toBe('');
      expect(text(await file.read(1000, 1))).toBe('');
      await expect(file.read(-1, 1)).rejects.toThrow(RangeError);
      await expect(file.read(0, 0.5)).rejects.toThrow(RangeError);
      await file.close();
      expect(await files().stat(at)).toMatchObject({ path: at, kind: 'folder' });
      expect(await files().stat('.')).toMatchObject({ path: '.', kind: 'folder' });
    });

    test('an open file keeps its content whatever becomes of its name', async () => {
      const at = await folder();
      await files().write(`${at}/f`, bytes('old'));
      const file = await files().open(`${at}/f`);
      await files().write(`${at}/f`, bytes('newer'));
      expect(text(await file.read(0, 10))).toBe('old');
      await files().remove(`${at}/f`);
      expect(text(await file.read(0, 10))).toBe('old');
      await file.close();
    });

    test('an empty file is a file', async () => {
      const at = await folder();
      expect(await files().write(`${at}/empty`, bytes(''))).toMatchObject({ bytes: 0, created: true });
      expect(await contentOf(files(), `${at}/empty`)).toBe('');
    });

    test('what is not there is said with what is near', async () => {
      const at = await folder();
      for (const name of ['index.ts', 'index.js', 'readme.md']) await files().write(`${at}/src/${name}`, bytes(''));
      expect(await codeOf(files().open(`${at}/src/indx.ts`))).toBe('FILE_NOT_FOUND');
      expect(await messageOf(files().open(`${at}/src/indx.ts`))).toContain(`"${at}/src/index.ts"`);
      expect(await messageOf(files().stat(`${at}/src/INDEX.TS`))).toContain(`"${at}/src/index.ts"`);
      const deep = await messageOf(files().open(`${at}/scr/deeper/f`));
      expect(deep).toContain(`"${at}"`);
      expect(deep).toContain(`"${at}/src"`);
      expect(await codeOf(files().list(`${at}/none`))).toBe('FILE_NOT_FOUND');
      expect(await codeOf(files().remove(`${at}/none`))).toBe('FILE_NOT_FOUND');
      expect(await codeOf(files().move(`${at}/none`, `${at}/x`))).toBe('FILE_NOT_FOUND');
    });

    test('a thing of another kind is refused as such', async () => {
      const at = await folder();
      await files().write(`${at}/f`, bytes('x'));
      expect(await codeOf(files().open(at))).toBe('FILE_WRONG_KIND');
      expect(await codeOf(files().list(`${at}/f`))).toBe('FILE_WRONG_KIND');
      expect(await codeOf(files().open(`${at}/f/`))).toBe('FILE_WRONG_KIND');
      expect(await codeOf(files().stat(`${at}/f/x`))).toBe('FILE_WRONG_KIND');
      expect(await codeOf(files().write(`${at}/f/x`, bytes('')))).toBe('FILE_WRONG_KIND');
      expect(await codeOf(files().write(at, bytes('')))).toBe('FILE_WRONG_KIND');
    });

    test('what is no path, or leads out, is refused by every operation', async () => {
      const at = await folder();
      await files().write(`${at}/f`, bytes('x'));
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
            write: files().write(path, bytes('')),
            absent: files().write(path, bytes(''), { expected: 'absent' }),
            makeFolder: files().makeFolder(path),
            remove: files().remove(path),
            tree: files().remove(path, { recursive: true }),
            from: files().move(path, `${at}/new`),
            to: files().move(`${at}/f`, path),
          };
          const codes = await Promise.all(Object.values(works).map(codeOf));
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
        expect(await codeOf(files().remove(path, { recursive: true }))).toBe('PATH_VIOLATION');
        expect(await codeOf(files().move(path, `${at}/x`))).toBe('PATH_VIOLATION');
        expect(await codeOf(files().write(path, bytes('')))).toBe('PATH_INVALID');
      }
    });

    test('a path of the host is answered with the one that is meant', async () => {
      const at = await folder();
      await files().write(`${at}/f`, bytes('x'));
      await expect(files().open(`/${at}/f`)).rejects.toMatchObject({ hint: expect.stringContaining(`"${at}/f"`) });
      expect(await messageOf(files().open('/etc/passwd'))).not.toContain('etc');
    });

    test('a large file is read in parts, and no more of it is held than was asked for', async () => {
      const at = await folder();
      const mebibytes = counts(3, 64);
      await files().write(`${at}/large`, pattern(mebibytes * 1_048_576));
      const file = await files().open(`${at}/large`);
      const before = proof ? heldBytes() : 0;
      for (let offset = 0; offset < file.facts.bytes; offset += 65_536) {
        const part = await file.read(offset, 65_536);
        expect(part.length).toBe(65_536);
        expect(part.buffer.byteLength).toBeLessThan(2 * 1_048_576);
        expect(part[0]).toBe(byteAt(offset));
        expect(part.at(-1)).toBe(byteAt(offset + 65_535));
      }
      // Kept whole it would stay held for as long as the file is open; what else the process holds passes.
      const most = before + mebibytes * 1_048_576 * 0.75;
      if (proof) await expect.poll(heldBytes, { timeout: 20_000 }).toBeLessThan(most);
      await file.close();
      await files().remove(`${at}/large`);
    });

    test.runIf(links)('links are followed inside, and told of themselves when asked', async () => {
      const at = await folder();
      await files().write(`${at}/real/f`, bytes('real'));
      await ground().link?.(`${at}/to-file`, 'real/f');
      await ground().link?.(`${at}/to-folder`, 'real');
      await ground().link?.(`${at}/out`, '../../../outside');
      await ground().link?.(`${at}/absolute`, '/etc/passwd');
      await ground().link?.(`${at}/loop`, 'loop');
      expect(await files().stat(`${at}/to-file`)).toMatchObject({ path: `${at}/real/f`, kind: 'file' });
      expect(await files().stat(`${at}/to-file`, { link: true })).toMatchObject({
        path: `${at}/to-file`,
        kind: 'link',
      });
      expect(await contentOf(files(), `${at}/to-folder/f`)).toBe('real');
      expect((await files().list(`${at}/to-folder`)).path).toBe(`${at}/real`);
      for (const name of ['out', 'absolute'])
        expect(await codeOf(files().open(`${at}/${name}`))).toBe('PATH_VIOLATION');
      expect(await codeOf(files().open(`${at}/loop`))).toBe('PATH_INVALID');
      expect((await files().remove(`${at}/out`)).kind).toBe('link');
    });
  });
}

function heldBytes(): number {
  setFlagsFromString('--expose-gc');
  (runInNewContext('gc') as () => void)();
  const { heapUsed, arrayBuffers } = process.memoryUsage();
  return heapUsed + arrayBuffers;
}

const byteAt = (offset: number): number => (offset * 31 + (offset >>> 16)) % 251;

function pattern(length: number): Uint8Array {
  const content = new Uint8Array(length);
  for (let offset = 0; offset < length; offset++) content[offset] = byteAt(offset);
  return content;
}
