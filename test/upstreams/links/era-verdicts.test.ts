import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { createEraVerdicts } from '../../../src/upstreams/links/era-verdicts.ts';
import { modernOpening } from '../../../src/upstreams/links/handshake.ts';
import { exitError } from '../../../src/upstreams/links/upstream-errors.ts';

const day = 24 * 3600_000;
let folder: string;
let file: string;

beforeEach(() => {
  vi.useFakeTimers();
  folder = mkdtempSync(join(tmpdir(), 'ambit-eras-'));
  file = join(folder, 'eras.json');
});

afterEach(() => {
  vi.useRealTimers();
  rmSync(folder, { recursive: true });
});

function described(definition = 'first', era: 'auto' | 'modern' | 'handshake' = 'auto') {
  const verdicts = createEraVerdicts(file);
  verdicts.applyDefinition('a', era, definition);
  return verdicts;
}

test('a verdict is remembered on disk, for its owner alone, with the date until which it holds', () => {
  described().set('a', 'handshake');
  expect(described().get('a')).toBe('handshake');
  expect(statSync(file).mode & 0o777).toBe(0o600);
  const [[name, kept]] = JSON.parse(readFileSync(file, 'utf8')) as [[string, { until: number }]];
  expect([name, kept.until]).toEqual(['a', Date.now() + 7 * day]);
});

test('after a week it is found out again', () => {
  described().set('a', 'modern');
  vi.advanceTimersByTime(6 * day);
  expect(described().get('a')).toBe('modern');
  vi.advanceTimersByTime(2 * day);
  expect(described().get('a')).toBeUndefined();
});

test('it is forgotten when the server is described otherwise, now or at the next start', () => {
  const verdicts = described();
  verdicts.set('a', 'modern');
  expect(described('second').get('a')).toBeUndefined();
  verdicts.applyDefinition('a', 'auto', 'first');
  expect(verdicts.get('a')).toBe('modern');
  verdicts.applyDefinition('a', 'auto', 'second');
  expect(verdicts.get('a')).toBeUndefined();
});

test('what the configuration says holds, is not written down, and goes with it', () => {
  const verdicts = described('first', 'handshake');
  expect(verdicts.get('a')).toBe('handshake');
  verdicts.applyDefinition('b', 'auto', 'b');
  verdicts.set('b', 'modern');
  expect(JSON.parse(readFileSync(file, 'utf8'))).toEqual([['b', expect.objectContaining({ verdict: 'modern' })]]);
  verdicts.applyDefinition('a', 'auto', 'first');
  expect(verdicts.get('a')).toBeUndefined();
});

test('a doubtful verdict holds for a minute and not over a restart', () => {
  const verdicts = described();
  verdicts.set('a', 'handshake', 'answer');
  expect(verdicts.get('a')).toBe('handshake');
  expect(described().get('a')).toBeUndefined();
  vi.advanceTimersByTime(61_000);
  expect(verdicts.get('a')).toBeUndefined();
});

test('a handshake after an unanswered probe proves the era, unless the server may only be slow', () => {
  const verdicts = described();
  const confirm = (doubt: 'silence' | 'answer') => {
    verdicts.set('a', 'handshake', doubt);
    verdicts.confirmHandshake('a');
    return verdicts.getCertain('a');
  };
  expect(confirm('silence')).toBeUndefined();
  vi.advanceTimersByTime(9 * 60_000);
  expect(verdicts.get('a')).toBe('handshake');
  vi.advanceTimersByTime(2 * 60_000);
  expect(verdicts.get('a')).toBeUndefined();
  expect(confirm('answer')).toBe('handshake');
  // A modern server that ends over one probe may have crashed for another reason.
  verdicts.set('a', 'modern');
  expect(confirm('answer')).toBeUndefined();
  expect(verdicts.get('a')).toBe('handshake');
  expect(described().get('a')).toBe('modern');
});

test('a handshake without a probe proves nothing: the server may speak both eras', () => {
  const verdicts = described();
  verdicts.confirmHandshake('a');
  expect(verdicts.get('a')).toBeUndefined();
  verdicts.set('a', 'modern');
  verdicts.confirmHandshake('a');
  expect(verdicts.getCertain('a')).toBe('modern');
});

test.each([
  { code: 1, signal: null, isProof: true },
  { code: null, signal: 'SIGKILL' as const, isProof: false },
  { code: 137, signal: null, isProof: false },
])('a process that ends over the probe with code $code or $signal', async ({ code, signal, isProof }) => {
  const verdicts = described();
  const error = exitError('a', { code, signal }, { lines: [], quote: undefined });
  const opening = modernOpening('a', verdicts).perform(() => Promise.reject(error), vi.fn());
  await expect(opening).rejects.toThrow('Unsupported protocol version');
  verdicts.confirmHandshake('a');
  expect(verdicts.get('a')).toBe('handshake');
  expect(verdicts.getCertain('a') === 'handshake').toBe(isProof);
});

test('a server that has proved to be modern is not given up after the time of a probe', async () => {
  const verdicts = described();
  const times: (number | undefined)[] = [];
  const ask = (_method: string, _params: string, maxMs?: number) => {
    times.push(maxMs);
    return Promise.reject(exitError('a', { code: 1, signal: null }, { lines: [], quote: undefined }));
  };
  for (const isKnown of [false, true]) {
    if (isKnown) verdicts.set('a', 'modern');
    await expect(modernOpening('a', verdicts).perform(ask, vi.fn())).rejects.toThrow('Unsupported protocol version');
  }
  expect(times).toEqual([expect.any(Number), undefined]);
});

test.each(['', '{', 'null', '{}', '[1]', '[["a"]]', '[["a",null]]'])(
  'a file that says %j is as good as none',
  (text) => {
    writeFileSync(file, text);
    const verdicts = described();
    expect(verdicts.get('a')).toBeUndefined();
    verdicts.set('a', 'modern');
    expect(described().get('a')).toBe('modern');
  },
);
