import { setImmediate as turn } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { counts } from '../../../proof.ts';
import { bytes, codeOf, contentOf, type Suite, treeOf } from './suite-workspace.ts';

export function describeRaces({ files, folder, open }: Suite): void {
  const many = Array.from({ length: 20 }, (_, index) => index);

  describe('at the same time', () => {
    test('of twenty who write over the same version, one does', async () => {
      const at = await folder();
      const other = await open({});
      let { version } = await files().write(`${at}/f`, bytes('start'));
      for (let round = 0; round < counts(5, 100); round++) {
        const expected = { version };
        const outcomes = await Promise.all(
          many.map((writer) =>
            (writer % 2 === 0 ? files() : other)
              .write(`${at}/f`, bytes(`round ${round} writer ${writer}`), { expected })
              .then((written) => ({ writer, version: written.version }))
              .catch((error: { code?: unknown }) => error.code),
          ),
        );
        const won = outcomes.filter((outcome) => typeof outcome === 'object') as { writer: number; version: string }[];
        expect(won).toHaveLength(1);
        expect(new Set(outcomes.filter((outcome) => typeof outcome === 'string'))).toEqual(new Set(['FILE_CHANGED']));
        expect(await contentOf(files(), `${at}/f`)).toBe(`round ${round} writer ${won[0]?.writer}`);
        version = won[0]?.version as string;
        expect((await files().stat(`${at}/f`)).version).toBe(version);
      }
    });

    test('of twenty who make a new file, one does', async () => {
      const at = await folder();
      const outcomes = await Promise.all(
        many.map((writer) =>
          files()
            .write(`${at}/a/b/f`, bytes(`writer ${writer}`), { expected: 'absent' })
            .then(() => writer)
            .catch((error: { code?: unknown }) => error.code),
        ),
      );
      const won = outcomes.filter((outcome) => typeof outcome === 'number');
      expect(won).toHaveLength(1);
      expect(outcomes.filter((outcome) => outcome === 'FILE_EXISTS')).toHaveLength(19);
      expect(await contentOf(files(), `${at}/a/b/f`)).toBe(`writer ${won[0]}`);
    });

    test('writes without a condition all succeed, each whole', async () => {
      const at = await folder();
      const contents = many.map((writer) => String(writer).repeat(30_000 + writer));
      const results = await Promise.all(contents.map((content) => files().write(`${at}/n/f`, bytes(content))));
      expect(results.filter((result) => result.created)).toHaveLength(1);
      expect(contents).toContain(await contentOf(files(), `${at}/n/f`));
      expect(await treeOf(files(), at)).toEqual([`${at}/n/`, `${at}/n/f`]);
    });

    test('writes of different files in one folder all stay', async () => {
      const at = await folder();
      await Promise.all(many.map((writer) => files().write(`${at}/deep/f${writer}`, bytes(String(writer)))));
      for (const writer of many) expect(await contentOf(files(), `${at}/deep/f${writer}`)).toBe(String(writer));
    });

    test('who reads sees the old content or the new, never half', async () => {
      const at = await folder();
      const contents = ['old', 'new'].map((word) => word.repeat(60_000));
      await files().write(`${at}/f`, bytes(contents[0] as string));
      let done = false;
      const writing = (async () => {
        for (let round = 0; round < counts(15, 200); round++) {
          await files().write(`${at}/f`, bytes(contents[round % 2] as string));
        }
        done = true;
      })();
      let reads = 0;
      while (!done) {
        expect(contents).toContain(await contentOf(files(), `${at}/f`));
        reads++;
        // Where reading needs no wait, nobody else would ever come to work.
        await turn();
      }
      await writing;
      expect(reads).toBeGreaterThan(0);
    });

    test('of twenty who move to one name, one does, and the rest keep what they had', async () => {
      const at = await folder();
      for (const mover of many) await files().write(`${at}/from${mover}`, bytes(String(mover)));
      const outcomes = await Promise.all(
        many.map((mover) =>
          codeOf(
            files()
              .move(`${at}/from${mover}`, `${at}/to/f`)
              .then(() => mover),
          ),
        ),
      );
      const won = many.filter((mover) => typeof outcomes[mover] === 'object');
      expect(won).toHaveLength(1);
      expect(outcomes.filter((outcome) => outcome === 'FILE_EXISTS')).toHaveLength(19);
      expect(await contentOf(files(), `${at}/to/f`)).toBe(String(won[0]));
      expect((await files().list(at)).entries).toHaveLength(20);
    });

    test('a file that many move at once arrives once', async () => {
      const at = await folder();
      await files().write(`${at}/f`, bytes('one'));
      const outcomes = await Promise.all(many.map((mover) => codeOf(files().move(`${at}/f`, `${at}/to${mover}`))));
      expect(outcomes.filter((outcome) => typeof outcome === 'object')).toHaveLength(1);
      expect((await files().list(at)).entries).toHaveLength(1);
    });

    test('folders made, filled and removed at once leave a whole tree', async () => {
      const at = await folder();
      await Promise.all(
        many.flatMap((each) => [
          codeOf(files().write(`${at}/a/${each % 4}/f`, bytes('x'))),
          codeOf(files().makeFolder(`${at}/a/${each % 4}/g`)),
          codeOf(files().remove(`${at}/a/${each % 4}`, { recursive: true })),
          codeOf(files().move(`${at}/a/${each % 4}`, `${at}/b${each}`)),
        ]),
      );
      for (const path of await treeOf(files(), at)) {
        expect((await files().stat(path)).kind).toBe(path.endsWith('/') ? 'folder' : 'file');
      }
      await files().remove(at, { recursive: true });
    });
  });
}
