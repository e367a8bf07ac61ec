import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { proof } from '../../../proof.ts';
import { callersOfBothEras } from '../both-eras.ts';
import { fixtureServer, startWatchedAmbit, type WatchedAmbit } from '../start-watched-ambit.ts';

const messageBytes = 1 << 20;
let ambit: WatchedAmbit;

beforeAll(async () => {
  ambit = await startWatchedAmbit({
    limits: { messageBytes },
    servers: { line: fixtureServer('endless-line.js'), big: fixtureServer('answers-big.js') },
  });
  await ambit.expectHealthy();
});
afterEach(() => ambit.expectHealthy());
afterAll(() => ambit?.stop());

describe.each(callersOfBothEras(() => ambit))('%s era', (_era, call) => {
  test('a line that never ends: the call fails, the memory does not grow (proof), the next call is served', async () => {
    const pouring = call('line', 'pour', proof ? {} : { fastMb: 8 });
    await ambit.expectMemoryWithin(100, pouring);
    expect(['!UPSTREAM_TOO_LARGE', '!UPSTREAM_FAILED']).toContain(await pouring);
    expect(await call('line', 'echo', { text: 'again' })).toBe('again');
  });

  test.each(['first', 'last'])('an answer over the limit, its id %s: only that call fails', async (shape) => {
    const bytes = messageBytes + 1;
    const results = await Promise.all([
      call('big', 'big', { bytes, shape }, 1),
      call('big', 'echo', { text: 'mine' }, 2),
      call('big', 'big', { bytes, shape }, 3),
      call('big', 'echo', { text: 'also mine' }, 4),
    ]);
    expect(results).toEqual(['!UPSTREAM_TOO_LARGE', 'mine', '!UPSTREAM_TOO_LARGE', 'also mine']);
  });

  test('an answer within the limit that is made of too many parts: only that call fails', async () => {
    const dense = { bytes: messageBytes / 2, shape: 'members' };
    const results = await Promise.all([
      call('big', 'big', dense, 1),
      call('big', 'echo', { text: 'mine' }, 2),
      call('big', 'big', dense, 3),
      call('big', 'echo', { text: 'also mine' }, 4),
    ]);
    expect(results).toEqual(['!UPSTREAM_TOO_LARGE', 'mine', '!UPSTREAM_TOO_LARGE', 'also mine']);
  });

  test('an answer of exactly the limit is delivered whole', async () => {
    expect((await call('big', 'big', { bytes: messageBytes, shape: 'first' })).length).toBeGreaterThan(
      messageBytes - 200,
    );
  });

  test('a notification over the limit is nobody’s answer: no call fails over it', async () => {
    const args = { bytes: messageBytes + 1, shape: 'notification', thenAnswer: true };
    expect(await Promise.all([call('big', 'big', args), call('big', 'echo', { text: 'mine' })])).toEqual([
      'pong',
      'mine',
    ]);
  });
});
