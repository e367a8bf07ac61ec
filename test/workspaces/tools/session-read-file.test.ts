import { expect, test } from 'vitest';
import { detectEncoding } from '../../../src/lib/text/encoding.ts';
import type { OpenedFile } from '../../../src/workspaces/backends/backend.ts';
import { type LineOffset, type LineRange, readLines } from '../../../src/workspaces/tools/session-read-file.ts';

const plain = detectEncoding(new Uint8Array()) as NonNullable<ReturnType<typeof detectEncoding>>;
const tera = 1024 ** 4;
const most = 4 * 1024 ** 2;

/** A file that begins with some text and goes on with a hole, as one that lies on no disk. */
function createSparseFile(text: string, bytes = tera) {
  const head = Buffer.from(text);
  const seen = { bytes: 0 };
  const file: OpenedFile = {
    facts: { path: 'x', kind: 'file', bytes, mode: 0o644, modifiedMs: 0, version: '1' },
    async read(offset, length) {
      const piece = Buffer.alloc(Math.max(0, Math.min(length, bytes - offset)));
      if (offset < head.length) head.copy(piece, 0, offset);
      seen.bytes += piece.length;
      return piece;
    },
    close: async () => {},
  };
  return { file, seen };
}

const read = (file: OpenedFile, range: Partial<LineRange>, from?: LineOffset) =>
  readLines(file, plain, { startLine: 1, endLine: Number.MAX_SAFE_INTEGER, maxBytes: 65_536, ...range }, from, most);

test('an endless line is not read to its end', async () => {
  const { file, seen } = createSparseFile('hello');
  expect((await read(file, {})).givenUp).toEqual({ line: 1, offset: 0 });
  expect((await read(file, { startLine: 2 })).givenUp).toEqual({ line: 1, offset: 0 });
  expect(seen.bytes).toBeLessThan(3 * most);
});

test('what comes before such a line is given, and where to go on', async () => {
  const { file, seen } = createSparseFile('one\ntwo\n');
  expect(await read(file, { endLine: 2 })).toMatchObject({
    content: 'one\ntwo\n',
    next: { line: 3, offset: 8 },
    truncated: false,
    totalLines: null,
    givenUp: undefined,
  });
  expect(seen.bytes).toBeLessThan(most);
  expect(await read(file, {})).toMatchObject({ content: 'one\ntwo\n', next: { line: 3 }, truncated: true });
  expect(seen.bytes).toBeLessThan(3 * most);
});

test('lines far into a file are reached by asking again', async () => {
  const lines = 20;
  const { file } = createSparseFile(`${'a'.repeat(1024 ** 2)}\n`.repeat(lines), lines * (1024 ** 2 + 1));
  let from: LineOffset | undefined;
  let asked = 0;
  for (; asked < lines; asked++) {
    const found = await read(file, { startLine: lines }, from);
    if (found.givenUp === undefined) {
      expect(found).toMatchObject({ endLine: lines, totalLines: lines });
      break;
    }
    expect(found.givenUp.offset).toBeGreaterThan(from?.offset ?? -1);
    from = found.givenUp;
  }
  expect(asked).toBeGreaterThan(2);
  expect(asked).toBeLessThan(lines);
});
