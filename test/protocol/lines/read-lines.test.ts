import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { PassThrough, Readable } from 'node:stream';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type LineReader, linesPerTurn, readLines } from '../../../src/protocol/lines/read-lines.ts';
import { counts, proof } from '../../proof.ts';
import { fixturePath } from '../../sandbox/runner-harness.ts';

type Event = ['line', string] | ['too long', string, string] | ['runaway'] | ['end'];

function recordEvents(stream: Readable, maxBytes: number, onLine?: (events: Event[], reader: LineReader) => void) {
  const events: Event[] = [];
  const reader = readLines(stream, {
    maxBytes,
    onLine(line) {
      events.push(['line', line.toString('latin1')]);
      onLine?.(events, reader);
    },
    onTooLong: (head, tail) => events.push(['too long', head.toString('latin1'), tail.toString('latin1')]),
    onRunaway: () => events.push(['runaway']),
    onEnd: () => events.push(['end']),
  });
  return { events, reader };
}

async function readEvents(chunks: readonly Buffer[], maxBytes: number): Promise<Event[]> {
  const stream = Readable.from(chunks, { objectMode: false, highWaterMark: 1 });
  const { events } = recordEvents(stream, maxBytes);
  await once(stream, 'close');
  return events;
}

/** A simple reference implementation. */
function computeEvents(bytes: string, maxBytes: number): Event[] {
  const events: Event[] = [];
  for (const raw of bytes.split('\n')) {
    const line = raw.endsWith('\r') ? raw.slice(0, -1) : raw;
    if (line.length === 0) continue;
    if (line.length <= maxBytes) events.push(['line', line]);
    else if (line.length > 4 * maxBytes) events.push(['runaway']);
    else events.push(['too long', line.slice(0, 1024), line.slice(-1024)]);
  }
  return [...events, ['end']];
}

function splitBytes(bytes: Buffer, sizes: readonly number[]): Buffer[] {
  const chunks: Buffer[] = [];
  for (let from = 0, i = 0; from < bytes.length; i++) {
    const size = sizes[i % sizes.length] ?? 1;
    // Copies, so that a write to a chunk shows.
    chunks.push(Buffer.from(bytes.subarray(from, from + size)));
    from += size;
  }
  return chunks;
}

describe('readLines', () => {
  it('delivers lines without their ends, skips empty ones, and the last without a newline', async () => {
    const chunks = ['one\ntw', 'o\r\n\n\r\nth', '', 'r', 'ee\r', '\nfo\rur\r'].map((text) => Buffer.from(text));
    expect(await readEvents(chunks, 100)).toEqual([
      ['line', 'one'],
      ['line', 'two'],
      ['line', 'three'],
      ['line', 'fo\rur'],
      ['end'],
    ]);
  });

  it('gives the same lines for any chunks', async () => {
    const piece = fc.oneof(
      fc.string({ unit: fc.constantFrom('a', 'b', '\r', '\n'), maxLength: 30 }),
      fc.integer({ min: 0, max: 30_000 }).map((length) => 'xyz'.repeat(length / 3)),
      fc.constantFrom('\n', '\r\n', '\n\n'),
    );
    const maxBytes = fc.oneof(fc.integer({ min: 1, max: 40 }), fc.integer({ min: 1000, max: 20_000 }));
    const sizes = fc.array(fc.oneof(fc.integer({ min: 1, max: 20 }), fc.integer({ min: 1, max: 9000 })), {
      minLength: 1,
      maxLength: 8,
    });
    await fc.assert(
      fc.asyncProperty(fc.array(piece, { maxLength: 12 }), maxBytes, sizes, async (pieces, limit, cuts) => {
        const text = pieces.join('');
        expect(await readEvents(splitBytes(Buffer.from(text, 'latin1'), cuts), limit)).toEqual(
          computeEvents(text, limit),
        );
      }),
      { numRuns: 300 },
    );
  });

  it.each([1, 1000, 100_000])(
    'accepts a line of exactly the limit in chunks of %d, and not a byte more',
    async (size) => {
      const text = `${'a'.repeat(5000)}\r\n${'b'.repeat(5001)}\n${'c'.repeat(20_000)}\r\n${'d'.repeat(20_001)}\nlast`;
      const events = await readEvents(splitBytes(Buffer.from(text), [size]), 5000);
      expect(events).toEqual([
        ['line', 'a'.repeat(5000)],
        ['too long', 'b'.repeat(1024), 'b'.repeat(1024)],
        ['too long', 'c'.repeat(1024), 'c'.repeat(1024)],
        ['runaway'],
        ['line', 'last'],
        ['end'],
      ]);
    },
  );

  it('returns lines of one chunk without copying them', () => {
    const stream = new PassThrough();
    const lines: Buffer[] = [];
    readLines(stream, { maxBytes: 100, onLine: (line) => lines.push(line), onTooLong() {}, onRunaway() {} });
    const chunk = Buffer.from('one\ntwo\n');
    stream.emit('data', chunk);
    expect(lines.map((line) => line.buffer === chunk.buffer)).toEqual([true, true]);
  });

  it('separates lines that arrive in pieces', () => {
    const stream = new PassThrough();
    const lines: Buffer[] = [];
    readLines(stream, { maxBytes: 100, onLine: (line) => lines.push(line), onTooLong() {}, onRunaway() {} });
    for (const text of ['fi', 'rst\n', 'sec', 'ond\n']) stream.emit('data', Buffer.from(text));
    expect(lines.map(String)).toEqual(['first', 'second']);
  });

  it.each([
    ['64 KB', 64 * 1024, counts(1, 100) * 1024 * 1024],
    ['1 byte', 1, counts(100, 4096) * 1024],
  ])('discards a runaway line in chunks of %s as it arrives', (_, size, total) => {
    const stream = new PassThrough();
    const { events } = recordEvents(stream, counts(16, 1024) * 1024);
    const chunk = Buffer.alloc(size, 120);
    const before = process.memoryUsage();
    for (let sent = 0; sent < total; sent += size) stream.emit('data', chunk);
    const after = process.memoryUsage();
    stream.emit('data', Buffer.from('xx\nnext\n'));
    expect(events).toEqual([['runaway'], ['line', 'next']]);
    if (proof) expect(after.arrayBuffers - before.arrayBuffers).toBeLessThan(8 * 1024 * 1024);
  });

  it('delivers nothing while paused, and continues in order', () => {
    const stream = new PassThrough();
    const { events, reader } = recordEvents(stream, 100, (_, self) => self.pause());
    stream.emit('data', Buffer.from('one\ntwo\nthr'));
    // Node resumes the streams of a child that has exited, paused or not.
    stream.emit('data', Buffer.from('ee\nfour'));
    stream.emit('end');
    expect(events).toEqual([['line', 'one']]);
    for (let i = 0; i < 3; i++) reader.resume();
    expect(events).toEqual([
      ['line', 'one'],
      ['line', 'two'],
      ['line', 'three'],
      ['line', 'four'],
    ]);
    reader.resume();
    expect(events.at(-1)).toEqual(['end']);
  });

  it('can be paused and resumed inside onLine', async () => {
    const stream = Readable.from([Buffer.from('1\n2\n3\n4'), Buffer.from('4\n5\n')], { objectMode: false });
    const { events } = recordEvents(stream, 100, (_, self) => {
      self.pause();
      self.resume();
    });
    await once(stream, 'close');
    expect(events).toEqual([...['1', '2', '3', '44', '5'].map((line) => ['line', line]), ['end']]);
  });

  it('gives the same lines with random pauses', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.string({ unit: fc.constantFrom('a', '\n', '\r'), maxLength: 40 }), { maxLength: 10 }),
        fc.infiniteStream(fc.boolean()),
        async (texts, pauses) => {
          const stream = Readable.from(
            texts.filter((text) => text !== '').map((text) => Buffer.from(text)),
            { objectMode: false },
          );
          const over = new Promise<void>((resolve) => {
            stream.once('close', resolve);
          });
          const { events } = recordEvents(stream, 8, (_, reader) => {
            if (pauses.next().value !== true) return;
            reader.pause();
            setImmediate(() => reader.resume());
          });
          await over;
          while (events.at(-1)?.[0] !== 'end') await new Promise(setImmediate);
          expect(events).toEqual(computeEvents(texts.join(''), 8));
        },
      ),
      { numRuns: 200 },
    );
  });

  it.each([
    ['short lines', 'x\n', 1],
    ['empty lines', '\n', 0],
  ])('S7: a flood of %s yields to others after every few lines', async (_, unit, delivered) => {
    const stream = new PassThrough();
    let inTurn = 0;
    const turns: number[] = [];
    const { events } = recordEvents(stream, 100, () => inTurn++);
    const total = 40 * linesPerTurn;
    stream.emit('data', Buffer.from(unit.repeat(total)));
    stream.emit('data', Buffer.from('last\n'));
    while (events.at(-1)?.[1] !== 'last') {
      turns.push(inTurn);
      inTurn = 0;
      await new Promise(setImmediate);
    }
    expect(turns.length).toBeGreaterThanOrEqual(40);
    expect(Math.max(...turns)).toBe(delivered * linesPerTurn);
    expect(events).toHaveLength(delivered * total + 1);
  });

  it('S7: long lines use up the share by their bytes', () => {
    const stream = new PassThrough();
    const { events } = recordEvents(stream, 1 << 20);
    for (let i = 0; i < 3; i++) stream.emit('data', Buffer.from(`${'a'.repeat(300_000)}\n`));
    expect(events).toHaveLength(1);
    stream.emit('end');
    expect(events).toHaveLength(4);
  });

  it('applies backpressure to a process that floods it while paused', async () => {
    const child = spawn(process.execPath, [fixturePath('floods-stdout')], { stdio: ['ignore', 'pipe', 'ignore'] });
    const { events } = recordEvents(child.stdout, 1000, (all, reader) => {
      if (all.length === 3) reader.pause();
    });
    await once(child.stdout, 'pause');
    const buffered = child.stdout.readableLength;
    await new Promise(setImmediate);
    expect(events).toHaveLength(3);
    expect(buffered).toBeLessThan(1024 * 1024);
    child.kill('SIGKILL');
    await once(child, 'exit');
    expect(events).toHaveLength(3);
    child.stdout.destroy();
  });

  it('reports the end of a destroyed stream, without the unfinished line', async () => {
    const stream = new PassThrough();
    const { events } = recordEvents(stream, 100);
    stream.emit('data', Buffer.from('whole\nhal'));
    stream.destroy();
    await once(stream, 'close');
    expect(events).toEqual([['line', 'whole'], ['end']]);
  });
});
