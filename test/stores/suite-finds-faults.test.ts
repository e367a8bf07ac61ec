import { describe, expect, test } from 'vitest';
import { type Fault, faults, openFaultyStore } from './faulty-stores.ts';
import { runSuite } from './run-suite.ts';
import { createTestClock } from './test-clock.ts';

function findBrokenRules(lie: Fault): Promise<string[]> {
  return runSuite(async (options) => {
    const { now, advance } = createTestClock();
    const store = openFaultyStore(lie, options, now);
    return { store, advance };
  });
}

describe('the published suite finds every fault', () => {
  test('and a correct store passes', async () => {
    expect(await findBrokenRules(() => ({}))).toEqual([]);
  });

  test.each(Object.entries(faults))('%s', async (_name, lie) => {
    const rules = await findBrokenRules(lie);
    expect(rules).not.toEqual([]);
    // A lie is one mistake: were nearly everything to fail, the store would only be unusable.
    expect(rules.length).toBeLessThan(10);
  });
});
