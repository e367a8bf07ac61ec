import { statSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createContainerRunner } from '../../../src/sandbox/container/container.ts';
import { createLimiter } from '../../../src/sandbox/limits/limiter.ts';
import { hasPodman } from '../../needs/podman.ts';
import { proof } from '../../proof.ts';
import { createSandboxHarness, does, processesIn, type SandboxHarness, ways } from '../bwrap/sandbox-harness.ts';
import { linesOf } from '../runner-harness.ts';
import { nameOf, textOf, until } from '../tagged-processes.ts';

let harness: SandboxHarness;

describe.skipIf(!hasPodman())('a container that takes all it can get', () => {
  beforeAll(async () => {
    harness = await createSandboxHarness(undefined, undefined, createContainerRunner);
  });
  afterAll(() => harness?.stop());

  test('is limited in processes, file size and /tmp, and its neighbour is not affected', async () => {
    const calm = await harness.started(['nothing']);
    const [forks, writes, fills] = await Promise.all([
      harness.started(['processes'], { pids: 30 }),
      harness.started(['file'], { fileMb: 3 }),
      harness.started(['tmp'], { fileMb: 1 }),
    ]);
    expect(await writes.line()).toBe('EFBIG');
    expect(statSync(join(harness.folder, 'ws/large')).size).toBe(3 << 20);
    expect(await fills.line()).toBe('ENOSPC after 64');
    const byKernel = (await harness.runner.probe()).limits.pids !== 'watchdog';
    if (byKernel) {
      const inside = () => processesIn(harness.folder).filter((pid) => nameOf(pid) === 'sleep');
      await until(
        () => inside().length > 10,
        5000,
        () => 'it starts nothing',
      );
      expect(inside().length).toBeLessThan(30);
    } else {
      expect((await forks.running.exited).reason).toMatch(/sandbox\.pids is 30$/);
    }
    // Nobody else was ended for it.
    expect(calm.running.stdin.writable && nameOf(calm.running.pid as number)).toBe('podman');
    await Promise.all([calm, forks, writes, fills].map(({ running }) => running.end()));
    await harness.allGone(10_000);
  });

  test.runIf(proof)('is ended by Ambit where the engine enforces no limits, with the reason', async () => {
    const { reaper, root: tmpRoot } = harness;
    const limiter = createLimiter([]);
    const runner = createContainerRunner({ reaper, tmpRoot, limitsByEngine: false, limiter });
    expect((await runner.probe()).limits).toMatchObject({ memoryMb: 'watchdog', pids: 'watchdog', cpus: 'none' });
    const running = await runner.start(harness.launch([does, 'memory'], { memoryMb: 150 }));
    running.stdout.resume();
    expect((await running.exited).reason).toMatch(/^it used \d+ MiB of memory; sandbox\.memoryMb is 150$/);
    await harness.allGone(10_000);
  });

  // The same is tried with bubblewrap in every run.
  test.runIf(proof).each(ways)('S8: two of one owner share its memory, bounded by %s', async (_, keepers) => {
    const { reaper, root: tmpRoot } = harness;
    const runner = createContainerRunner({ reaper, tmpRoot, limiter: createLimiter(keepers) });
    const greedy = await Promise.all(
      ['a', 'b'].map(async () => {
        const running = await runner.start({
          ...harness.launch([does, 'hold', '180'], { memoryMb: 300 }),
          owner: 'one',
        });
        expect(await linesOf(running)()).toBe('ready');
        return running;
      }),
    );
    for (const { stdin } of greedy) stdin.write('\n');
    const exits = await Promise.all(greedy.map(({ exited }) => exited));
    for (const { reason } of exits) expect(reason).toMatch(/sandbox\.memoryMb is 300$/);
    await harness.nothingLeft(10_000);
  });

  test('is gone when the monitor between it and the engine is killed', async () => {
    const { running } = await harness.started(['daemon']);
    const first = processesIn(harness.folder).find((pid) => nameOf(pid) === 'node') as number;
    const between = parentOf(first);
    expect(nameOf(between)).toBe('conmon');
    process.kill(between, 'SIGKILL');
    expect((await running.exited).reason).toBe('the supervisor of its container was killed');
    await harness.allGone(10_000);
  });
});

const parentOf = (pid: number): number => Number(/^PPid:\s+(\d+)/m.exec(textOf(`/proc/${pid}/status`))?.[1]);
