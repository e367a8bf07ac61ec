import fc from 'fast-check';
import { afterEach, describe, expect, test } from 'vitest';
import {
  type CacheableResult,
  type CacheLimits,
  createResultCache,
  type ResultCache,
} from '../../../src/gateway/cache/result-cache.ts';

let now = 0;
let cache: ResultCache;
function openCache(bounds: Partial<CacheLimits> = {}): ResultCache {
  now = 0;
  cache = createResultCache({ bytes: 10_000, entries: 5, entryBytes: 2000, ...bounds }, () => now);
  return cache;
}
afterEach(() => cache.close());

const createResult = (text: string, ttlMs = 1000): NonNullable<CacheableResult> => ({
  kept: { bytes: Buffer.from(text), id: { start: 0, end: 1 }, status: 200, from: text },
  ttlMs,
});
const putResult = (key: string, text = key, owner?: string, ttlMs?: number) =>
  cache.load(key, owner, async () => createResult(text, ttlMs));
const findText = async (key: string) => (await cache.find(key))?.bytes.toString();

/** A call that brings what it is told when it is told. */
function startPendingCall(key: string, owner?: string) {
  let settle: (outcome: CacheableResult | Error) => void = () => {};
  const outcome = new Promise<CacheableResult | Error>((resolve) => {
    settle = resolve;
  });
  const led = cache.load(key, owner, async () => {
    const value = await outcome;
    if (value instanceof Error) throw value;
    return value;
  });
  led.catch(() => {});
  return { led, settle };
}

describe('what is kept', () => {
  test('is there until its time is over, and the bytes are its own', async () => {
    openCache();
    const large = Buffer.from('xx-result-xx');
    const { kept, ttlMs } = createResult('', 1000);
    await cache.load('k', undefined, async () => ({ kept: { ...kept, bytes: large.subarray(3, 9) }, ttlMs }));
    large.fill(0);
    now = 999;
    expect(await findText('k')).toBe('result');
    // A small buffer from Node's pool would keep the rest of the pool in memory.
    expect((await cache.find('k'))?.bytes.buffer.byteLength).toBe('result'.length);
    now = 1000;
    expect(cache.find('k')).toBeUndefined();
    expect(cache.stats()).toEqual({ entries: 0, bytes: 0 });
  });

  test('what was used longest ago makes room, by number and by bytes', async () => {
    openCache();
    for (const key of ['a', 'b', 'c', 'd', 'e']) await putResult(key);
    expect(await findText('a')).toBe('a');
    await putResult('f');
    expect(await Promise.all(['a', 'b', 'f'].map(findText))).toEqual(['a', undefined, 'f']);
    openCache({ entries: 100, bytes: 4000 });
    for (const key of ['a', 'b', 'c']) await putResult(key, key.repeat(1000));
    expect(await Promise.all(['a', 'b', 'c'].map(async (key) => (await findText(key))?.length))).toEqual([
      undefined,
      1000,
      1000,
    ]);
    await putResult('long', 'x'.repeat(2001));
    expect(cache.find('long')).toBeUndefined();
    await putResult('none', 'x', undefined, 0);
    expect(cache.find('none')).toBeUndefined();
  });

  test('its size is what is in it, whatever happens', async () => {
    const steps = fc.array(
      fc.tuple(fc.constantFrom('put', 'find', 'forget', 'wait'), fc.constantFrom('a', 'b', 'c'), fc.nat({ max: 900 })),
      { maxLength: 40 },
    );
    await fc.assert(
      fc.asyncProperty(steps, async (script) => {
        openCache({ bytes: 3000, entries: 2 });
        const kept = new Map<string, number>();
        for (const [verb, key, size] of script) {
          if (verb === 'put') await putResult(key, 'x'.repeat(size), key, 100);
          if (verb === 'find') await cache.find(key);
          if (verb === 'forget') cache.forget(key);
          if (verb === 'wait') now += 30;
          for (const each of ['a', 'b', 'c']) {
            const found = await cache.find(each);
            if (found === undefined) kept.delete(each);
            else kept.set(each, found.bytes.length + 512);
          }
          const bytes = [...kept.values()].reduce((sum, cost) => sum + cost, 0);
          expect(cache.stats()).toEqual({ entries: kept.size, bytes });
          expect(bytes).toBeLessThanOrEqual(3000);
          expect(kept.size).toBeLessThanOrEqual(2);
        }
        cache.close();
      }),
    );
  });
});

describe('one flight', () => {
  test('those who ask while a call is under way get what it brings', async () => {
    openCache();
    const call = startPendingCall('k');
    const waiting = [cache.find('k'), cache.find('k')];
    expect(cache.find('other')).toBeUndefined();
    call.settle(createResult('result'));
    expect((await Promise.all(waiting)).map((kept) => kept?.from)).toEqual(['result', 'result']);
    await call.led;
    expect(await findText('k')).toBe('result');
  });

  test('even what is too long to be kept', async () => {
    openCache();
    const call = startPendingCall('k');
    const waiting = cache.find('k');
    call.settle(createResult('x'.repeat(2001)));
    expect((await waiting)?.bytes.length).toBe(2001);
    expect(cache.stats().entries).toBe(0);
  });

  test.each([new Error('it failed'), undefined])('when it brings %s, they go themselves', async (outcome) => {
    openCache();
    const call = startPendingCall('k');
    const waiting = cache.find('k');
    call.settle(outcome);
    expect(await waiting).toBeUndefined();
    await call.led.catch(() => {});
    expect(cache.find('k')).toBeUndefined();
    const [first, second] = [startPendingCall('k'), startPendingCall('k')];
    const later = cache.find('k');
    second.settle(createResult('second'));
    await second.led;
    first.settle(createResult('first'));
    expect((await later)?.from).toMatch(/first|second/);
    await first.led;
    expect(await findText('k')).toBe('first');
  });
});

describe('what is forgotten', () => {
  test('goes with its owner alone', async () => {
    openCache();
    await putResult('a', 'a', 'one');
    await putResult('b', 'b', 'two');
    await putResult('c', 'c');
    cache.forget('one');
    expect(await Promise.all(['a', 'b', 'c'].map(findText))).toEqual([undefined, 'b', 'c']);
  });

  test('is not kept when it comes afterwards, and those who waited get nothing', async () => {
    openCache();
    const calls = [startPendingCall('k', 'one'), startPendingCall('k', 'one')];
    const waiting = cache.find('k');
    cache.forget('one');
    for (const call of calls) call.settle(createResult('late'));
    await Promise.all(calls.map(({ led }) => led));
    expect(await waiting).toBeUndefined();
    expect(cache.stats().entries).toBe(0);
  });
});
