import { PassThrough } from 'node:stream';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { drawInstalls } from '../../../src/cli/io/install-progress.ts';
import { clearProgress, showProgress } from '../../../src/cli/io/progress.ts';

const clear = '\r\u001b[K';
let terminal: PassThrough & { isTTY?: boolean; columns?: number };
const readDrawn = () => String(terminal.read() ?? '');

beforeEach(() => {
  vi.useFakeTimers();
  vi.stubEnv('TERM', 'xterm');
  terminal = Object.assign(new PassThrough(), { isTTY: true, columns: 80 });
});
afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllEnvs();
});

test('a task is shown after two seconds, counted every second, and cleared at its end', async () => {
  let finish = (_: number) => {};
  const task = new Promise<number>((resolve) => {
    finish = resolve;
  });
  const shown = showProgress('Ending \u001b[2Jthe session', task, terminal);
  vi.advanceTimersByTime(1900);
  expect(readDrawn()).toBe('');
  vi.advanceTimersByTime(100);
  expect(readDrawn()).toBe(`${clear}Ending \\u001b[2Jthe session … 2 s\r`);
  vi.advanceTimersByTime(1000);
  expect(readDrawn()).toBe(`${clear}Ending \\u001b[2Jthe session … 3 s\r`);
  clearProgress(terminal);
  expect(readDrawn()).toBe(clear);
  vi.advanceTimersByTime(1000);
  expect(readDrawn()).toContain('4 s');
  finish(7);
  expect(await shown).toBe(7);
  expect(readDrawn()).toBe(clear);
  vi.advanceTimersByTime(5000);
  expect(readDrawn()).toBe('');
});

test('a quick task, a failed one, a stream that is no terminal and a dumb terminal show nothing', async () => {
  await showProgress('quick', Promise.resolve(), terminal);
  await expect(showProgress('failed', Promise.reject(new Error('no')), terminal)).rejects.toThrow('no');
  for (const prepare of [() => vi.stubEnv('TERM', 'dumb'), () => Object.assign(terminal, { isTTY: false })]) {
    vi.stubEnv('TERM', 'xterm');
    prepare();
    const task = new Promise<void>((resolve) => setTimeout(resolve, 5000));
    const shown = showProgress('slow', task, terminal);
    await vi.advanceTimersByTimeAsync(5000);
    await shown;
  }
  expect(readDrawn()).toBe('');
});

test('an installation takes the line of the task that waits for it', async () => {
  const task = new Promise<void>((resolve) => setTimeout(resolve, 9000));
  const shown = showProgress('Starting notes', task, terminal);
  vi.advanceTimersByTime(3000);
  expect(readDrawn()).toContain('Starting notes … 3 s');
  const onInstall = drawInstalls(terminal);
  onInstall({ package: 'notes', state: 'started' });
  vi.advanceTimersByTime(3000);
  expect(readDrawn()).not.toContain('Starting notes');
  onInstall({ package: 'notes', state: 'installed' });
  vi.advanceTimersByTime(1000);
  expect(readDrawn()).toMatch(/Installed notes in 3 s\n.*Starting notes … 7 s\r$/s);
  await vi.advanceTimersByTimeAsync(2000);
  await shown;
});
