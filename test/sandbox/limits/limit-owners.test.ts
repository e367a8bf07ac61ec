import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { ResourceLimits } from '../../../src/sandbox/limits/limits.ts';
import { hasBwrap } from '../../needs/bwrap.ts';
import { proof } from '../../proof.ts';
import { createSandboxHarness, processesIn, type SandboxHarness, ways } from '../bwrap/sandbox-harness.ts';
import { nameOf, textOf, until } from '../tagged-processes.ts';

let harness: SandboxHarness;

describe.skipIf(!hasBwrap()).each(ways)('S8: processes of one owner, bounded by %s', (_, keepers) => {
  beforeAll(async () => {
    harness = await createSandboxHarness(undefined, keepers);
  });
  afterAll(() => harness?.stop());

  const started = async (owner: string, deed: readonly string[], limits: Partial<ResourceLimits>) => {
    const { running, line } = await harness.started(deed, limits, { owner });
    return { ...running, line };
  };
  const holding = async (owner: string) => {
    const running = await started(owner, ['hold', '120'], { memoryMb: 300 });
    running.stdin.write('\n');
    expect(await running.line()).toBe('held');
    return running;
  };

  test('S8: three that hold two fifths of the memory each are all ended, and another owner is not', async () => {
    const limits = { memoryMb: 300 };
    const [other, ...greedy] = await Promise.all([
      holding('other'),
      ...['a', 'b', 'c'].map(() => started('one', ['hold', '120'], limits)),
    ]);
    for (const { stdin } of greedy) stdin.write('\n');
    const exits = await Promise.all(greedy.map(({ exited }) => exited));
    for (const { reason } of exits) expect(reason).toMatch(/sandbox\.memoryMb is 300$/);
    expect(nameOf(other.pid as number)).toBe('bwrap');
    // What was ended for it leaves room for the next.
    const next = await holding('one');
    await Promise.all([other.end(), next.end()]);
    await harness.nothingLeft();
  });

  test.skipIf(!proof && keepers !== undefined)(
    'S8: two that start all the processes they can have no more than one may',
    async () => {
      // The first would leave no room for the start of the second.
      const both = await Promise.all(['a', 'b'].map(() => started('one', ['processes-later'], { pids: 40 })));
      for (const { stdin } of both) stdin.write('\n');
      const sleeping = () => processesIn(harness.folder).filter((pid) => nameOf(pid) === 'sleep').length;
      if ((await harness.runner.probe()).limits.pids.includes('watchdog')) {
        const exits = await Promise.all(both.map(({ exited }) => exited));
        for (const { reason } of exits) expect(reason).toMatch(/sandbox\.pids is 40$/);
      } else {
        await until(
          () => refusals() > 0,
          5000,
          () => 'nothing is refused',
        );
        expect(sleeping()).toBeLessThan(40);
        await Promise.all(both.map((running) => running.end()));
      }
      await harness.nothingLeft();
    },
  );

  /** How often the kernel refused a process of this instance; asked of the kernel, apart from the code. */
  const refusals = () =>
    Math.max(
      0,
      ...harness.groups().map((group) => Number(/^max (\d+)$/m.exec(textOf(`${group}/pids.events`))?.[1] ?? 0)),
    );
});
