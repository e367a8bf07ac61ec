import { setImmediate as turn } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { counts } from '../../../proof.ts';
import { listTree, readContent, refusalCode, type Suite, toBytes } from './suite-workspace.ts';

export function describeRaces({ files, folder, open }: Suite): void {
  const many = Array.from({ length: 20 }, (_, index) => index);

  describe('at the same time', () => {
    test('of twenty writes over the same version, one succeeds', async () => {
      const at = await folder();
      const other = await open({});
      let { version } = await files().write(`${at}/f`, toBytes('start'));
      for (let round = 0; round < counts(5, 100); round++) {
        const expected = { version };
        const outcomes = await Promise.all(
          many.map((writer) =>
            (writer % 2 === 0 ? files() : other)
              .write(`${at}/f`, toBytes(`round ${round} writer ${writer}`), { expected })
              .then((written) => ({ writer, version: written.version }))
              .catch((error: { code?: unknown }) => error.code),
          ),
        );
        const won = outcomes.filter((outcome) => typeof outcome === 'object') as { writer: number; version: string }[];
        expect(won).toHaveLength(1);
        expect(new Set(outcomes.filter((outcome) => typeof outcome === 'string'))).toEqual(new Set(['FILE_CHANGED']));
        expect(await readContent(files(), `${at}/f`)).toBe(`round ${round} writer ${won[0]?.writer}`);
        version = won[0]?.version as string;
        expect((await files().stat(`${at}/f`)).version).toBe(version);
      }
    });

    test('of twenty creates of one file, one succeeds', async () => {
      const at = await folder();
      const outcomes = await Promise.all(
        many.map((writer) =>
          files()
            .write(`${at}/a/b/f`, toBytes(`writer ${writer}`), { expected: 'absent' })
            .then(() => writer)
            .catch((error: { code?: unknown }) => error.code),
        ),
      );
      const won = outcomes.filter((outcome) => typeof outcome === 'number');
      expect(won).toHaveLength(1);
      expect(outcomes.filter((outcome) => outcome === 'FILE_EXISTS')).toHaveLength(19);
      expect(await readContent(files(), `${at}/a/b/f`)).toBe(`writer ${won[0]}`);
    });

    test('writes without a condition all succeed, each whole', async () => {
      const at = await folder();
      const contents = many.map((writer) => String(writer).repeat(30_000 + writer));
      const results = await Promise.all(contents.map((content) => files().write(`${at}/n/f`, toBytes(content))));
      expect(results.filter((result) => result.created)).toHaveLength(1);
      expect(contents).toContain(await readContent(files(), `${at}/n/f`));
      expect(await listTree(files(), at)).toEqual([`${at}/n/`, `${at}/n/f`]);
    });

    test('writes of different files in one folder all stay', async () => {
      const at = await folder();
      await Promise.all(many.map((writer) => files().write(`${at}/deep/f${writer}`, toBytes(String(writer)))));
      for (const writer of many) expect(await readContent(files(), `${at}/deep/f${writer}`)).toBe(String(writer));
    });

    test('readers see the old or the new content, never half', async () => {
      const at = await folder();
      const contents = ['old', 'new'].map((word) => word.repeat(60_000));
      await files().write(`${at}/f`, toBytes(contents[0] as string));
      let done = false;
      const writing = (async () => {
        for (let round = 0; round < counts(15, 200); round++) {
          await files().write(`${at}/f`, toBytes(contents[round % 2] as string));
        }
        done = true;
      })();
      let reads = 0;
      while (!done) {
        expect(contents).toContain(await readContent(files(), `${at}/f`));
        reads++;
        // A read that never waits would keep others from running.
        await turn();
      }
      await writing;
      expect(reads).toBeGreaterThan(0);
    });

    test('of twenty moves to one name, one succeeds, and the others keep their names', async () => {
      const at = await folder();
      for (const mover of many) await files().write(`${at}/from${mover}`, toBytes(String(mover)));
      const outcomes = await Promise.all(
        many.map((mover) =>
          refusalCode(
            files()
              .move(`${at}/from${mover}`, `${at}/to/f`)
              .then(() => mover),
          ),
        ),
      );
      const won = many.filter((mover) => typeof outcomes[mover] === 'object');
      expect(won).toHaveLength(1);
      expect(outcomes.filter((outcome) => outcome === 'FILE_EXISTS')).toHaveLength(19);
      expect(await readContent(files(), `${at}/to/f`)).toBe(String(won[0]));
      expect((await files().list(at)).entries).toHaveLength(20);
    });

    test('a file moved in parallel arrives once', async () => {
      const at = await folder();
      await files().write(`${at}/f`, toBytes('one'));
      const outcomes = await Promise.all(many.map((mover) => refusalCode(files().move(`${at}/f`, `${at}/to${mover}`))));
      expect(outcomes.filter((outcome) => typeof outcome === 'object')).toHaveLength(1);
      expect((await files().list(at)).entries).toHaveLength(1);
    });

    test('folders made, filled and removed in parallel leave a consistent tree', async () => {
      const at = await folder();
      await Promise.all(
        many.flatMap((each) => [
          refusalCode(files().write(`${at}/a/${each % 4}/f`, toBytes('x'))),
          refusalCode(files().makeFolder(`${at}/a/${each % 4}/g`)),
          refusalCode(files().remove(`${at}/a/${each % 4}`, { recursive: true })),
          refusalCode(files().move(`${at}/a/${each % 4}`, `${at}/b${each}`)),
        ]),
      );
      for (const path of await listTree(files(), at)) {
        expect((await files().stat(path)).kind).toBe(path.endsWith('/') ? 'folder' : 'file');
      }
      await files().remove(at, { recursive: true });
    });
  });
}
