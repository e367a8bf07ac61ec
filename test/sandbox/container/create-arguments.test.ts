import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { parseMountInfo } from '../../../src/sandbox/bwrap/mounts.ts';
import type { PinnedPath } from '../../../src/sandbox/bwrap/pinned-path.ts';
import { containerEnforcement, listSetups } from '../../../src/sandbox/container/container.ts';
import { seccompProfile } from '../../../src/sandbox/container/seccomp-profile.ts';
import { buildLocalImage, createArguments, formatEnvironment } from '../../../src/sandbox/container/start-container.ts';
import { describeEnforcement as limitsBy } from '../../../src/sandbox/limits/limiter.ts';
import { dangerousCalls, judgements } from '../bwrap/dangerous-calls.ts';
import { ordinaryLimits } from '../bwrap/sandbox-harness.ts';

const toPinned = (real: string): PinnedPath => ({ source: real, target: real, descriptor: 0, stats: {} as never });
const wanted = (home: string) => ({
  name: 'ambit-a-p1',
  image: 'localhost/it:1',
  isLocal: true,
  program: ['node', 'server.js'] as const,
  account: { uid: 7, gid: 8 },
  labels: ['ambit.instance=a'],
  limits: ordinaryLimits,
  limitsByEngine: true,
  seccompFile: '/s.json',
  envFile: '/e',
  system: ['/usr'],
  mounts: {
    entries: [{ pinned: toPinned(home), writable: true }],
    guarded: { kept: [], readOnly: [toPinned(`${home}/.git`)] },
  },
  workFolder: home,
});
const engine = (kind: 'podman' | 'docker') => ({ kind, path: `/bin/${kind}`, env: {} });

test.each(['podman', 'docker'] as const)('%s gets flags against its own additions', (kind) => {
  const args = createArguments(engine(kind), wanted('/ws')).join(' ');
  for (const part of [
    '--network none --ipc none --hostname sandbox',
    '--read-only',
    '--cap-drop ALL',
    '--security-opt no-new-privileges',
    '--security-opt seccomp=/s.json',
    '--user 7:8',
    '--pull never',
    '--tmpfs /tmp:rw,exec,nosuid,nodev,mode=1777,size=64m',
    '--tmpfs /tmp/home:rw,exec,nosuid,nodev,mode=1777,size=16m',
    '--ulimit core=0:0',
    '--log-driver none',
    '--no-healthcheck',
    '--memory 512m --memory-swap 512m --pids-limit 64',
    'source=/usr,destination=/usr,bind-propagation=rprivate,readonly,bind-nonrecursive',
    'source=/ws,destination=/ws,bind-propagation=rprivate ',
    'source=/ws/.git,destination=/ws/.git,bind-propagation=rprivate,readonly',
    '--entrypoint node localhost/it:1 server.js',
  ]) {
    expect(args).toContain(part);
  }
  expect(args).not.toMatch(/ -e | --env | --privileged|docker\.sock/);
  for (const part of [
    '--http-proxy=false',
    '--read-only-tmpfs=false',
    '--image-volume ignore',
    '--no-hosts',
    '--unsetenv-all',
    '--security-opt mask=/sys:/proc/cmdline:/proc/key-users:/proc/kmsg:/proc/mtrr:/proc/pressure:/proc/slabinfo:/proc/vmallocinfo ',
  ]) {
    expect(args.includes(part), part).toBe(kind === 'podman');
  }
});

test.each(['/a,ro=false', '/a"b', '/a\nb'])(
  'a path that an engine would read as more than a path is refused: %j',
  (path) => {
    expect(() => createArguments(engine('podman'), wanted(path))).toThrow('cannot be mounted in a container');
  },
);

test('a volume is mounted by its name, and only one with a name of ours', () => {
  const asked = (volume: string) => createArguments(engine('docker'), { ...wanted('/workspace'), volume });
  expect(asked('ambit-1-w')).toContain('type=volume,source=ambit-1-w,destination=/workspace');
  for (const name of ['w', 'ambit-', 'ambit-a,destination=/', 'ambit-a/b', '--force', 'ambit-a\n']) {
    expect(() => asked(name)).toThrow('Not the name of a volume');
  }
});

test('variables go one to a line, and what a line cannot hold is refused', () => {
  expect(formatEnvironment({ A: 'b=c #d', E: '' })).toBe('A=b=c #d\nE=\n');
  for (const env of [{ A: 'b\nSECRET=x' }, { '#A': 'b' }, { 'A\nB': 'c' }, { '': 'x' }]) {
    expect(() => formatEnvironment(env as Record<string, string>)).toThrow('cannot be passed to a container');
  }
});

test('the image of this machine is an archive that others can read, the same each time', () => {
  const link = { inside: '/opt/tool', target: '../srv/tool' };
  const image = buildLocalImage({ uid: 5, gid: 6 }, [link]);
  const listed = execFileSync('tar', ['--numeric-owner', '-tvf', '-'], { input: image.content, encoding: 'utf8' });
  expect(listed).toContain('opt/tool -> ../srv/tool');
  expect(listed).toMatch(/drwxr-xr-x .* tmp\/$/m);
  expect(listed).toMatch(/drwxr-xr-x 5\/6 .* workspace\/$/m);
  const passwd = execFileSync('tar', ['-xOf', '-', 'etc/passwd'], { input: image.content, encoding: 'utf8' });
  expect(passwd).toBe('sandbox:x:5:6::/tmp/home:/bin/sh\n');
  expect(buildLocalImage({ uid: 5, gid: 6 }, [link]).name).toBe(image.name);
  expect(buildLocalImage({ uid: 5, gid: 6 }, []).name).not.toBe(image.name);
  expect(() => buildLocalImage({ uid: 5, gid: 6 }, [{ ...link, target: 'x'.repeat(101) }])).toThrow('too long');
});

interface SeccompProfile {
  readonly defaultAction: string;
  readonly defaultErrnoRet: number;
  readonly architectures: readonly string[];
  readonly syscalls: readonly {
    readonly names: readonly string[];
    readonly action: string;
    readonly errnoRet?: number;
    readonly args?: readonly { index: number; op: string; value: number; valueTwo?: number }[];
  }[];
}

/** What an engine does about a call: each rule that names it and whose tests all hold has a say. */
function judge({ syscalls, ...otherwise }: SeccompProfile, call: string, given: readonly number[]): string {
  const holding = syscalls.filter(({ names, args = [] }) => {
    const tests = args.map(({ index, op, value, valueTwo = 0 }) => {
      const argument = BigInt(given[index] ?? 0);
      if (op === 'SCMP_CMP_EQ') return argument === BigInt(value);
      if (op === 'SCMP_CMP_MASKED_EQ') return (argument & BigInt(value)) === BigInt(valueTwo);
      throw new Error(`not a test: ${op}`);
    });
    return names.includes(call) && tests.every((holds) => holds);
  });
  const said = new Set(holding.map(({ action, errnoRet }) => `${action} ${errnoRet ?? ''}`.trim()));
  return [...said].sort().join(' and ') || `${otherwise.defaultAction} ${otherwise.defaultErrnoRet}`;
}

describe.each([
  ['x64', 'SCMP_ARCH_X86_64'],
  ['arm64', 'SCMP_ARCH_AARCH64'],
])('the filter of system calls for %s', (architecture, name) => {
  const profile = JSON.parse(seccompProfile(architecture)) as SeccompProfile;
  const [allowed, refused, notThere] = ['SCMP_ACT_ALLOW', 'SCMP_ACT_ERRNO 1', 'SCMP_ACT_ERRNO 38'];

  test('is for this processor alone, and what it does not name is not there', () => {
    expect(profile.architectures).toEqual([name]);
    expect(judge(profile, 'a_call_of_tomorrow', [])).toBe(notThere);
  });

  test('refuses each dangerous call', () => {
    const verdicts = Object.keys(dangerousCalls).map((call) => [call, judge(profile, call, [])]);
    expect(verdicts).toEqual(Object.keys(dangerousCalls).map((call) => [call, refused]));
  });

  test('checks the other calls by their arguments, as the filter of bwrap does', () => {
    const meaning = { allowed, refused, 'not there': notThere, 'no such family': notThere };
    const verdicts = judgements.map(([call, args]) => [call, args, judge(profile, call, args)]);
    expect(verdicts).toEqual(judgements.map(([call, args, verdict]) => [call, args, meaning[verdict]]));
  });
});

test('mounts are read as the kernel writes them', () => {
  const line = String.raw`36 35 98:0 /a\040b /mnt\134x\011y rw,noatime master:1 - ext3 /dev/root rw`;
  expect(parseMountInfo(`${line}\n37 36 0:1 / /p ro - tmpfs none rw\n`)).toEqual([
    { id: '36', device: '98:0', root: '/a b', mountPoint: '/mnt\\x\ty', writable: true },
    { id: '37', device: '0:1', root: '/', mountPoint: '/p', writable: false },
  ]);
});

test('S8: tells which limits hold for all containers of one owner, and which for each', () => {
  const rest = { fileMb: 'rlimit', openFiles: 'rlimit', wallSeconds: 'timer' } as const;
  const grouped = (version: 1 | 2, boundsCpu: boolean) => limitsBy({ version, boundsCpu }, undefined, true, false);
  const alone = limitsBy(undefined, undefined, true, true);
  const each = { memoryMb: 'container each', pids: 'container each', cpus: 'container each' };
  const v2 = { memoryMb: 'cgroup v2', pids: 'cgroup v2' };
  expect(containerEnforcement(true, grouped(2, true))).toEqual({ ...v2, cpus: 'cgroup v2', ...rest });
  expect(containerEnforcement(true, grouped(2, false))).toEqual({ ...v2, cpus: 'none', ...rest });
  expect(containerEnforcement(true, grouped(1, false))).toMatchObject({
    memoryMb: 'cgroup v1',
    cpus: 'container each',
  });
  expect(containerEnforcement(true, alone)).toEqual({ ...each, ...rest });
  expect(containerEnforcement(false, alone)).toEqual({
    memoryMb: 'watchdog',
    pids: 'watchdog',
    cpus: 'none',
    ...rest,
  });
});

test('S8: podman is tried with groups and without, docker containers never join one', () => {
  const folder = mkdtempSync(join(tmpdir(), 'ambit-engines-'));
  try {
    for (const name of ['podman', 'docker']) writeFileSync(join(folder, name), '#!/bin/sh\n', { mode: 0o755 });
    const ways = (hasGroups: boolean) =>
      listSetups(folder, true, hasGroups).map(({ engine: { kind }, joinsGroup }) => `${kind} ${joinsGroup}`);
    expect(ways(true)).toEqual(['podman true', 'podman false', 'podman false', 'docker false']);
    expect(ways(false)).toEqual(['podman false', 'podman false', 'docker false']);
  } finally {
    rmSync(folder, { recursive: true });
  }
});
