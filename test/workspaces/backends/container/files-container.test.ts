import { once } from 'node:events';
import { PassThrough } from 'node:stream';
import { afterEach, describe, expect, test } from 'vitest';
import { createRemoteFile } from '../../../../src/workspaces/backends/container/container-backends.ts';
import {
  connectToFiles,
  type FilesCall,
  type FilesConnection,
} from '../../../../src/workspaces/backends/container/files-container.ts';
import {
  createFrameReader,
  encodeFrame,
  type FrameHead,
} from '../../../../src/workspaces/backends/container/files-protocol.ts';
import * as answers from '../../../../src/workspaces/backends/container/response-schemas.ts';
import { getResolution } from '../../../../src/workspaces/resolutions.ts';

const facts = { path: 'a', kind: 'file', bytes: 1, mode: 0o644, modifiedMs: 1.5, version: '1:1' };

interface FarEnd {
  readonly connection: FilesConnection;
  /** The requests as they arrive. */
  readonly asked: FrameHead[];
  readonly broken: Error[];
  arrived(count: number): Promise<void>;
  say(head: FrameHead, body?: Uint8Array): void;
  raw(bytes: Buffer): void;
}

const connections: FilesConnection[] = [];
afterEach(() => {
  for (const connection of connections.splice(0)) connection.fail();
});

/** The other end is this test. */
function createFarEnd({ contentBytes = 1000, answerMs = 60_000 } = {}): FarEnd {
  const [stdin, stdout] = [new PassThrough(), new PassThrough()];
  const [asked, broken]: [FrameHead[], Error[]] = [[], []];
  const reader = createFrameReader({
    maxBodyBytes: () => 1e6,
    onFrame(head) {
      asked.push(head);
      stdin.emit('asked');
    },
  });
  stdin.on('data', (chunk: Buffer) => reader.push(chunk));
  const connection = connectToFiles(stdin, stdout, {
    maxContentBytes: contentBytes,
    timeoutMs: answerMs,
    onBroken: (why) => broken.push(why),
  });
  connections.push(connection);
  return {
    connection,
    asked,
    broken,
    async arrived(count) {
      while (asked.length < count) await once(stdin, 'asked');
    },
    say: (head, body) => {
      for (const part of encodeFrame(head, body)) stdout.write(part);
    },
    raw: (bytes) => stdout.write(bytes),
  };
}

const stat: FilesCall<unknown> = {
  request: { do: 'stat', root: 1, path: 'a', options: {} },
  parse: (ok) => answers.found.parse(ok),
};
const createWrite = (bytes: number): FilesCall<unknown> => ({
  request: { do: 'write', root: 1, path: 'a', options: {} },
  body: new Uint8Array(bytes),
  parse: (ok) => answers.written.parse(ok),
});
const catchError = (work: Promise<unknown>): Promise<unknown> => work.catch((error: unknown) => error);

describe('responses of the files program', () => {
  test('go to their callers, in any order', async () => {
    const { connection, asked, arrived, say } = createFarEnd();
    const all = Promise.all([connection.ask(stat), connection.ask(stat), connection.ask(stat)]);
    await arrived(3);
    for (const { id } of asked.toReversed()) say({ id, ok: { ...facts, path: `p${id}`, more: 'unasked' } });
    expect(await all).toEqual([1, 2, 3].map((id) => ({ ...facts, path: `p${id}` })));
  });

  const wrong: [string, (far: FarEnd) => void][] = [
    ['an answer to nothing', ({ say }) => say({ id: 7, ok: facts })],
    ['an answer to no number', ({ say }) => say({ id: '1', ok: facts })],
    ['an answer without content', ({ say }) => say({ id: 1 })],
    ['a path that leads out', ({ say }) => say({ id: 1, ok: { ...facts, path: '../../etc/passwd' } })],
    ['a path of the host', ({ say }) => say({ id: 1, ok: { ...facts, path: '/etc/passwd' } })],
    ['a negative size', ({ say }) => say({ id: 1, ok: { ...facts, bytes: -1 } })],
    ['a size that is no number', ({ say }) => say({ id: 1, ok: { ...facts, bytes: '9' } })],
    ['a kind that there is not', ({ say }) => say({ id: 1, ok: { ...facts, kind: 'socket' } })],
    ['a mode beyond permissions', ({ say }) => say({ id: 1, ok: { ...facts, mode: 0o100644 } })],
    ['content where none belongs', ({ say }) => say({ id: 1, ok: facts }, Buffer.alloc(1))],
    ['a refusal of another kind', ({ say }) => say({ id: 1, error: { code: 'UNAUTHENTICATED', what: 'Log in' } })],
    ['a refusal without end', ({ say }) => say({ id: 1, error: { code: 'FILE_FAILED', what: 'x'.repeat(5000) } })],
    [
      'a refusal that leads out',
      ({ say }) => say({ id: 1, error: { code: 'PATH_PROTECTED', way: { asked: 'x', resolved: '../../x' } } }),
    ],
    ['a head larger than any', ({ raw }) => raw(Buffer.from([255, 255, 255, 255, 0, 0, 0, 0]))],
    [
      'a body larger than any',
      ({ raw }) => raw(Buffer.from([0, 0, 0, 8, 255, 255, 255, 255, ...Buffer.from('{"id":1}')])),
    ],
    ['what is no frame', ({ raw }) => raw(Buffer.from('Error: no space left on device\n'))],
  ];
  test.each(wrong)(
    'ends the container when it is %s; whoever waits is told, and nothing more is read',
    async (_, say) => {
      const other = createFarEnd();
      const [read, change] = [catchError(other.connection.ask(stat)), catchError(other.connection.ask(createWrite(3)))];
      await other.arrived(2);
      say(other);
      expect(await read).toMatchObject({ code: 'WORKSPACE_UNAVAILABLE' });
      expect(await change).toMatchObject({
        code: 'FILE_FAILED',
        message: expect.stringContaining('may or may not have been done'),
      });
      other.say({ id: 2, ok: facts });
      other.say({ id: 9, ok: facts });
      expect(await catchError(other.connection.ask(stat))).toMatchObject({ code: 'WORKSPACE_UNAVAILABLE' });
      expect(other.broken).toHaveLength(1);
      expect(other.asked).toHaveLength(2);
    },
  );

  test('too many bytes of a file are refused', async () => {
    const other = createFarEnd();
    const file = createRemoteFile(
      other.connection,
      { root: 1, facts: { ...facts, kind: 'file' }, file: 3 },
      Buffer.alloc(4),
    );
    const reading = catchError(file.read(100, 10));
    await other.arrived(1);
    other.say({ id: 1, ok: {} }, Buffer.alloc(11));
    expect(await reading).toMatchObject({ code: 'WORKSPACE_UNAVAILABLE' });
    expect(other.broken).toHaveLength(1);
  });

  test('a refusal is passed on, with control characters escaped', async () => {
    const { connection, arrived, say, broken } = createFarEnd();
    const refused = catchError(connection.ask(stat));
    await arrived(1);
    say({
      id: 1,
      error: {
        code: 'FILE_NOT_FOUND',
        what: 'not \u001b[2Jthere',
        hint: 'Look.',
        rule: 'r',
        way: { asked: 'l', resolved: 'a/b' },
      },
    });
    expect(getResolution(await refused)).toEqual({ asked: 'l', resolved: 'a/b' });
    expect(await refused).toMatchObject({
      code: 'FILE_NOT_FOUND',
      message: 'not \\u001b[2Jthere',
      hint: 'Look.',
      rule: 'r',
    });
    expect(broken).toEqual([]);
  });

  test('time out', async () => {
    const { connection, broken } = createFarEnd({ answerMs: 5 });
    expect(await catchError(connection.ask(stat))).toMatchObject({ code: 'WORKSPACE_UNAVAILABLE' });
    expect(broken.map(({ message }) => message)).toEqual(['It did not answer in time.']);
  });
});

describe('requests to the files program', () => {
  test('are limited to 64 at a time, and none is lost', async () => {
    const { connection, asked, arrived, say } = createFarEnd();
    const all = Promise.all(Array.from({ length: 100 }, () => connection.ask(stat)));
    await arrived(64);
    expect(asked).toHaveLength(64);
    for (let next = 0; next < 100; next++) {
      await arrived(next + 1);
      expect(asked.length).toBeLessThanOrEqual(next + 64);
      say({ id: asked[next]?.['id'], ok: facts });
    }
    expect(await all).toHaveLength(100);
  });

  test('are limited by content size, and a large one is sent alone', async () => {
    const { connection, asked, arrived, say } = createFarEnd({ contentBytes: 1000 });
    const order: number[] = [];
    const all = [600, 600, 300, 5000, 1].map((bytes) =>
      connection.ask(createWrite(bytes)).then(() => {
        order.push(bytes);
      }),
    );
    const answer = (index: number) => say({ id: asked[index]?.['id'], ok: { ...facts, created: true, folders: 0 } });
    await arrived(1);
    for (const [index, count] of [1, 3, 3, 4, 5].entries()) {
      await arrived(Math.max(count, index + 1));
      expect(asked).toHaveLength(count);
      answer(index);
    }
    await Promise.all(all);
    expect(order).toEqual([600, 600, 300, 5000, 1]);
  });
});
