import { describe, expect, test } from 'vitest';
import { describeEnforcement, explainExit, explainOverLimit } from '../../../src/sandbox/limits/limiter.ts';
import { canCountProcesses, wrapInRlimits } from '../../../src/sandbox/limits/rlimits.ts';
import {
  sliceArguments,
  stopSliceArguments,
  systemdEnvironment,
  wrapInScope,
} from '../../../src/sandbox/limits/systemd.ts';

const limits = { memoryMb: 200, pids: 30, cpus: 0.5, fileMb: 3, openFiles: 100, wallSeconds: 60 };

describe('what is in force', () => {
  const byAmbit = { fileMb: 'rlimit', openFiles: 'rlimit', wallSeconds: 'timer' };
  test.each([
    [
      'cgroup v2',
      { version: 2, boundsCpu: true },
      undefined,
      { memoryMb: 'cgroup v2', pids: 'cgroup v2', cpus: 'cgroup v2' },
    ],
    [
      'cgroup v1',
      { version: 1, boundsCpu: true },
      undefined,
      { memoryMb: 'cgroup v1', pids: 'cgroup v1', cpus: 'cgroup v1' },
    ],
    [
      'no cpu',
      { version: 1, boundsCpu: false },
      undefined,
      { memoryMb: 'cgroup v1', pids: 'cgroup v1', cpus: 'priority' },
    ],
    ['systemd', undefined, { boundsTogether: true }, { memoryMb: 'systemd', pids: 'systemd', cpus: 'systemd' }],
    [
      'a systemd that has no slices',
      undefined,
      { boundsTogether: false },
      { memoryMb: 'systemd each', pids: 'systemd each', cpus: 'systemd each' },
    ],
    ['nothing', undefined, undefined, { memoryMb: 'watchdog', pids: 'rlimit each', cpus: 'priority' }],
  ] as const)('with %s', (_, groups, systemd, expected) => {
    expect(describeEnforcement(groups, systemd, true, true)).toEqual({ ...expected, ...byAmbit });
  });

  test('root is limited by the kernel only in a group, and without prlimit files are not limited', () => {
    expect(describeEnforcement(undefined, undefined, true, false)).toMatchObject({ pids: 'watchdog' });
    expect(describeEnforcement(undefined, undefined, false, true)).toMatchObject({
      pids: 'watchdog',
      fileMb: 'none',
      openFiles: 'none',
    });
  });
});

test('systemd starts the same program with limits, without the variables for systemd', () => {
  const env = systemdEnvironment({ XDG_RUNTIME_DIR: '/run/user/7', SECRET: 'x' }, false) as Record<string, string>;
  expect(env).toEqual({ XDG_RUNTIME_DIR: '/run/user/7', DBUS_SESSION_BUS_ADDRESS: 'unix:path=/run/user/7/bus' });
  const tools = { systemdRun: '/usr/bin/systemd-run', env };
  const { command, args } = wrapInScope(tools, limits, 2, 'ambita1.slice', ['/usr/bin/bwrap', '--args', '3']);
  expect([command, ...args].join(' ')).toBe(
    '/usr/bin/systemd-run --user --scope --quiet --collect --slice=ambita1.slice -p MemoryMax=200M -p MemorySwapMax=0 -p TasksMax=32 -p CPUQuota=50% -- /usr/bin/env -i /usr/bin/bwrap --args 3',
  );
  const bare = wrapInScope({ ...tools, env: {} }, limits, 2, undefined, ['x']).args.join(' ');
  expect(bare).not.toMatch(/--user|--slice/);
  expect(systemdEnvironment({}, false)).toBeUndefined();
  expect(systemdEnvironment({ XDG_RUNTIME_DIR: '/run/user/7' }, true)).toEqual({});
});

test('S8: systemd makes a slice for all processes of an owner, sets new limits for it, and ends it', () => {
  const env = { XDG_RUNTIME_DIR: '/run/user/7' };
  const call = '--user call org.freedesktop.systemd1 /org/freedesktop/systemd1 org.freedesktop.systemd1.Manager';
  const given = '4 MemoryMax t 209715200 MemorySwapMax t 0 TasksMax t 36 CPUQuotaPerSecUSec t 500000';
  expect(sliceArguments(env, 'a.slice', limits, 6, false).join(' ')).toBe(
    `${call} StartTransientUnit ssa(sv)a(sa(sv)) a.slice fail ${given} 0`,
  );
  expect(sliceArguments(env, 'a.slice', limits, 6, true).join(' ')).toBe(
    `${call} SetUnitProperties sba(sv) a.slice true ${given}`,
  );
  expect(stopSliceArguments({}, 'a.slice').join(' ')).toBe(`${call.slice(7)} StopUnit ss a.slice replace`);
});

test('rlimits stay within those of Ambit itself', () => {
  const own = [
    'Limit                     Soft Limit           Hard Limit           Units',
    'Max file size             unlimited            unlimited            bytes',
    'Max processes             500                  20                   processes',
    'Max open files            10                   64                   files',
  ].join('\n');
  expect(wrapInRlimits(['/bin/x', 'y'], limits, true, own).join(' ')).toBe(
    '/usr/bin/prlimit --core=0 --fsize=3145728 --nofile=64 --nproc=20 -- /bin/x y',
  );
  expect(wrapInRlimits(['/bin/x'], limits, false, own)).not.toContainEqual(expect.stringMatching('nproc'));
});

test('processes are counted by sandbox from Linux 5.14 on, and never for root', () => {
  const newer = ['5.14.0', '5.15.0-generic', '6.1.0', '10.0'];
  const older = ['5.13.9', '4.19.0-x', '3.10', ''];
  for (const kernel of newer) expect(canCountProcesses(kernel, 1000), kernel).toBe(true);
  for (const kernel of older) expect(canCountProcesses(kernel, 1000), kernel).toBe(false);
  expect(canCountProcesses('6.1.0', 0)).toBe(false);
});

test('explains an exit that a limit has caused', () => {
  const left = (code: number | null, refused?: { memory: number; pids: number }) =>
    explainExit({ code, signal: null }, refused, limits);
  const none = { memory: 0, pids: 0 };
  expect(left(0, none)).toBeUndefined();
  expect(left(1, none)).toBeUndefined();
  expect(left(137, none)).toBeUndefined();
  expect(left(137)).toMatch(/probably .* sandbox\.memoryMb is 200$/);
  expect(left(1, { memory: 1, pids: 0 })).toMatch(/sandbox\.memoryMb is 200$/);
  expect(left(153, none)).toMatch(/sandbox\.fileMb is 3$/);
  expect(left(134, { memory: 0, pids: 9 })).toMatch(/sandbox\.pids is 30$/);
  expect(left(0, { memory: 0, pids: 9 })).toBeUndefined();
  expect(explainOverLimit({ memoryMb: 200, pids: 30 }, limits)).toBeUndefined();
  expect(explainOverLimit({ memoryMb: 200.6, pids: 30 }, limits)).toMatch(/^it used 201 MiB/);
  expect(explainOverLimit({ memoryMb: 1, pids: 31 }, limits)).toMatch(/^it had 31/);
});
