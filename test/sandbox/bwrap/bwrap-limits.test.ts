import { readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { hasBwrap } from '../../needs/bwrap.ts';
import { proof } from '../../proof.ts';
import { linesOf } from '../runner-harness.ts';
import { textOf, until } from '../tagged-processes.ts';
import { createSandboxHarness, does, processesIn, type SandboxHarness, ways } from './sandbox-harness.ts';

let harness: SandboxHarness;

describe.skipIf(!hasBwrap()).each(ways)('a sandbox bounded by %s', (_, keepers) => {
  /** The same means in both ways: once is enough, but for the proof. */
  const isRepeated = !proof && keepers !== undefined;

  beforeAll(async () => {
    harness = await createSandboxHarness(undefined, keepers);
  });
  afterAll(() => harness?.stop());

  const byKernel = async () => (await harness.runner.probe()).limits.memoryMb !== 'watchdog';

  test('reports the enforced limits', async () => {
    const { limits } = await harness.runner.probe();
    expect(limits).toMatchObject({ fileMb: 'rlimit', openFiles: 'rlimit', wallSeconds: 'timer' });
    if (keepers !== undefined) expect(limits).toMatchObject({ memoryMb: 'watchdog', cpus: 'priority' });
  });

  test('S8: cannot allocate memory of no process unless a control group counts it', async () => {
    if (await byKernel()) return;
    const script = `
import ctypes, errno, os
libc = ctypes.CDLL(None, use_errno=True)
said = []
try: said.append(os.memfd_create('hoard'))
except OSError as error: said.append(errno.errorcode[error.errno])
said.append('shared' if libc.shmget(0, 1 << 28, 0o1600) >= 0 else errno.errorcode[ctypes.get_errno()])
def fill(path):
    try:
        with open(path, 'wb', buffering=0) as file:
            for _ in range(40): file.write(bytes(1 << 20))
        return 'filled'
    except OSError as error: return errno.errorcode[error.errno]
said += [fill('/tmp/hoard'), fill('/dev/shm/hoard')]
print(*said)
`;
    const launch = harness.launch(['-c', script], { memoryMb: 32 });
    const running = await harness.runner.start({ ...launch, command: '/usr/bin/python3' });
    expect(await linesOf(running)()).toBe('ENOSYS ENOSYS ENOSPC EROFS');
    await running.exited;
  });

  const hoards = isRepeated ? ['child'] : ['memory', 'child'];
  test.each(hoards)('is ended beyond its memory limit (%s), with the reason', async (deed) => {
    const neighbour = await harness.started(['nothing']);
    const { running } = await harness.started([deed], { memoryMb: 200 });
    const { reason } = await running.exited;
    expect(reason).toMatch(
      (await byKernel())
        ? /^it needed more memory than allowed; sandbox\.memoryMb is 200$/
        : /^it used \d+ MiB of memory; sandbox\.memoryMb is 200$/,
    );
    expect(processesIn(harness.folder)).not.toEqual([]);
    await neighbour.running.end();
    await harness.nothingLeft();
  });

  test.skipIf(isRepeated)('the reason is reported also when it is just being ended', async () => {
    const { running } = await harness.started(['memory'], { memoryMb: 200 });
    running.stdout.once('end', () => void running.end());
    running.stdout.resume();
    expect((await running.exited).reason).toMatch(/sandbox\.memoryMb is 200$/);
    await harness.nothingLeft();
  });

  test('has no more processes than it was given', async () => {
    const { running } = await harness.started(['processes'], { pids: 30 });
    const { limits } = await harness.runner.probe();
    if (limits.pids === 'watchdog') {
      expect((await running.exited).reason).toMatch(/^it had \d+ processes and threads; sandbox\.pids is 30$/);
    } else {
      // The first process inside counts as well, and so do the threads of the server: there are fewer processes.
      await until(
        () => processesIn(harness.folder).length > 10,
        5000,
        () => 'it starts nothing',
      );
      expect(processesIn(harness.folder).length).toBeLessThanOrEqual(31);
      await running.end();
    }
    await harness.nothingLeft();
  });

  test.skipIf(isRepeated)('writes no larger file than it may', async () => {
    const large = () => statSync(join(harness.folder, 'ws/large')).size;
    const { line, running } = await harness.started(['file'], { fileMb: 3 });
    expect(await line()).toBe('EFBIG');
    expect(large()).toBe(3 << 20);
    await running.end();
    // Most programs know nothing of such a limit, and are ended for it.
    const launch = harness.launch(['if=/dev/zero', 'of=large', 'bs=1M', 'count=9'], { fileMb: 2 });
    const { exited } = await harness.runner.start({ ...launch, command: '/bin/dd' });
    expect((await exited).reason).toBe('it wrote a file larger than allowed; sandbox.fileMb is 2');
    expect(large()).toBe(2 << 20);
    await harness.nothingLeft();
  });

  test.skipIf(isRepeated)('opens no more files than it may', async () => {
    const running = await harness.runner.start(harness.launch([does, 'files'], { openFiles: 64 }));
    const said = /^EMFILE after (\d+)$/.exec((await linesOf(running)()) ?? '');
    expect(Number(said?.[1])).toBeLessThan(64);
    expect((await running.end()).reason).toBeUndefined();
  });

  test.skipIf(isRepeated)('runs no longer than its limit', async () => {
    // Nothing is expected of it before that: a slow machine may not have started its program by then.
    const running = await harness.runner.start(harness.launch([does, 'nothing'], { wallSeconds: 0.1 }));
    running.stdout.resume();
    expect((await running.exited).reason).toBe('it reached its maximum running time; sandbox.wallSeconds is 0.1');
    await harness.nothingLeft();
  });

  test('has no more processor time than it was given, or comes after others', async () => {
    const { running } = await harness.started(['spin'], { cpus: 0.2 });
    const { limits } = await harness.runner.probe();
    const inside = processesIn(harness.folder);
    if (limits.cpus === 'priority') {
      for (const pid of inside) expect(niceness(pid)).toBeGreaterThanOrEqual(10);
    } else {
      const throttled = () => harness.groups().some((group) => numberIn(join(group, 'cpu.stat'), 'nr_throttled') > 2);
      await until(throttled, 5000, () => 'it is not held back');
    }
    await running.end();
    await harness.nothingLeft();
  });
});

const niceness = (pid: number) =>
  Number(
    readFileSync(`/proc/${pid}/stat`, 'latin1')
      .replace(/^.*\) /s, '')
      .split(' ')[16],
  );

function numberIn(path: string, name: string): number {
  return Number(new RegExp(`^${name} (\\d+)$`, 'm').exec(textOf(path))?.[1] ?? 0);
}
