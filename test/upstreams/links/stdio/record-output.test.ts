import { PassThrough } from 'node:stream';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { recordStderr } from '../../../../src/upstreams/links/stdio/record-output.ts';

beforeEach(() => void vi.useFakeTimers({ toFake: ['Date'] }));
afterEach(() => {
  vi.restoreAllMocks();
  vi.useRealTimers();
});

function recordOf(): { say(text: string): void; end(): void; readonly recorded: [string, number | undefined][] } {
  const stderr = new PassThrough();
  const recorded: [string, number | undefined][] = [];
  recordStderr(stderr, (line, dropped) => recorded.push([line, dropped]));
  return {
    say: (text) => void stderr.emit('data', Buffer.from(text)),
    end: () => void stderr.emit('end'),
    recorded,
  };
}

test('lines are told as they were written, however they are cut, and the last without its end', () => {
  const { say, end, recorded } = recordOf();
  for (const piece of ['on', 'e\r\n\ntwo\nth', 'ree', `\n${'é'.repeat(3000)}`, 'more\nlast']) say(piece);
  end();
  expect(recorded.map(([line]) => line)).toEqual(['one', 'two', 'three', 'é'.repeat(1536), 'last']);
});

test.each(['x\n', '\n'])('S7: a flood of %j is dropped without being split, and counted', (line) => {
  const { say, recorded } = recordOf();
  const looks = vi.spyOn(Buffer.prototype, 'indexOf');
  say(line.repeat(30_000));
  say(`${line.repeat(30_000)}half a li`);
  expect(looks.mock.calls.length).toBeLessThanOrEqual(50);
  vi.setSystemTime(Date.now() + 2000);
  say('ne\nafterwards\n');
  expect(recorded.slice(0, -1)).toEqual(Array(line === 'x\n' ? 50 : 0).fill(['x', undefined]));
  expect(recorded.at(-1)).toEqual(['afterwards', 60_000 - 50 + 1]);
});

test('L9: a line that is cut ends before the word that was cut, which may be half a secret', () => {
  const { say, recorded } = recordOf();
  const words = `${'x'.repeat(4086)} `;
  say(`${words}hunter-two-22\n`);
  for (const piece of [`${words}hunter-tw`, 'o-22', '\nshort one\n']) say(piece);
  expect(recorded.map(([line]) => line)).toEqual([words.trim(), words.trim(), 'short one']);
});
