import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { counts } from '../../../proof.ts';
import { readJournal } from '../../start-probed-ambit.ts';
import { callersOfBothEras } from '../both-eras.ts';
import { fixtureServer, startWatchedAmbit, type WatchedAmbit } from '../start-watched-ambit.ts';

let ambit: WatchedAmbit;

beforeAll(async () => {
  ambit = await startWatchedAmbit({
    servers: {
      chatty: fixtureServer('floods-notifications.js'),
      asking: fixtureServer('floods-requests.js'),
      cursing: fixtureServer('floods-stderr.js'),
    },
  });
  await ambit.expectHealthy();
});
afterEach(() => ambit.expectHealthy());
afterAll(() => ambit?.stop());

describe.each(callersOfBothEras(() => ambit))('%s era', (_era, call) => {
  test('a flood of notifications: other calls of the session are answered meanwhile', async () => {
    const flood = call('chatty', 'flood', { count: counts(5000, 1_000_000) });
    let others = 0;
    const beside = (async () => {
      let over = false;
      void flood.then(() => {
        over = true;
      });
      while (!over) {
        expect(await call('calm', 'echo', { text: 'beside' })).toBe('beside');
        expect(await call('chatty', 'echo', { text: 'within' })).toBe('within');
        others++;
      }
    })();
    await ambit.expectMemoryWithin(150, beside);
    expect(await flood).toBe('flooded');
    expect(others).toBeGreaterThan(0);
  });

  test('a flood of requests of its own: the call is answered, and so is what it asks', async () => {
    const asking = call('asking', 'ask', {
      count: counts(2000, 20_000),
      method: 'sampling/createMessage',
      answer: true,
    });
    await ambit.expectMemoryWithin(150, asking);
    expect(await asking).toBe('asked');
    // Some were dropped over the rate; what was taken is refused, since nobody is there to answer for long.
    let outcomes: Record<string, number> = {};
    while (Object.keys(outcomes).length === 0) {
      outcomes = JSON.parse(await call('asking', 'outcomes')) as Record<string, number>;
    }
    expect(outcomes['result']).toBeUndefined();
  });

  test('pings of its own are answered even when nobody else is there', async () => {
    expect(await call('asking', 'ask', { count: 3, method: 'ping' })).toBe('asked');
  });

  test('a flood on stderr: the call is answered, and the journal stays readable', async () => {
    const lines = counts(10_000, 1_000_000);
    expect(await call('cursing', 'curse', { lines, bytes: 4 << 20, text: 'there' })).toBe('there');
    const written = readJournal(ambit.dataDir).filter(
      ({ event, server }) => event === 'stderr' && server === 'cursing',
    );
    expect(written.length).toBeLessThan(lines / 4);
  });
});
