import { describe, expect, test } from 'vitest';
import { type Lie, lies, openLiar } from './faulty-stores.ts';
import { nextNoon } from './next-noon.ts';
import { brokenRules } from './run-suite.ts';

function broken(lie: Lie): Promise<string[]> {
  return brokenRules(async (options) => {
    let now = nextNoon();
    const store = openLiar(lie, options, () => now);
    const advance = (ms: number) => {
      now += ms;
    };
    return { store, advance };
  });
}

describe('the published suite finds every lie', () => {
  test('and a store that tells none passes', async () => {
    expect(await broken(() => ({}))).toEqual([]);
  });

  test.each(Object.entries(lies))('%s', async (_name, lie) => {
    const rules = await broken(lie);
    expect(rules).not.toEqual([]);
    // A lie is one mistake: were nearly everything to fail, the store would only be unusable.
    expect(rules.length).toBeLessThan(10);
  });
});
