import { execFileSync } from 'node:child_process';
import { expect, test } from 'vitest';
import { seccompFilter } from '../../../src/runners/bwrap/seccomp.ts';
import { newestCall, refusedCalls } from '../../../src/runners/bwrap/system-calls.ts';
import { createArguments, environmentLines } from '../../../src/runners/container/create-arguments.ts';
import { localImage } from '../../../src/runners/container/local-image.ts';
import { plainCalls } from '../../../src/runners/container/plain-calls.ts';
import { seccompProfile } from '../../../src/runners/container/seccomp-profile.ts';
import { parseMounts } from '../../../src/runners/container/shown-truly.ts';
import { ordinaryLimits } from '../bwrap/sandbox-harness.ts';

const place = (real: string) => ({ real, inside: real, descriptor: 0, stats: {} as never });
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
  mounts: { places: [{ what: place(home), writable: true }], guarded: { kept: [], readOnly: [place(`${home}/.git`)] } },
  workFolder: home,
});
const engine = (kind: 'podman' | 'docker') => ({ kind, path: `/bin/${kind}`, env: {} });

test.each(['podman', 'docker'] as const)('%s is asked for nothing it would add by itself', (kind) => {
  const args = createArguments(engine(kind), wanted('/ws')).join(' ');
  for (const part of [
    '--network none',
    '--read-only',
    '--cap-drop ALL',
    '--security-opt no-new-privileges',
    '--security-opt seccomp=/s.json',
    '--user 7:8',
    '--pull never',
    '--memory 512m --memory-swap 512m --pids-limit 64',
    'source=/usr,destination=/usr,bind-propagation=rprivate,readonly,bind-nonrecursive',
    'source=/ws,destination=/ws,bind-propagation=rprivate ',
    'source=/ws/.git,destination=/ws/.git,bind-propagation=rprivate,readonly',
    '--entrypoint node localhost/it:1 server.js',
  ]) {
    expect(args).toContain(part);
  }
  expect(args).not.toMatch(/ -e | --env | --privileged|docker\.sock/);
  expect(args.includes('--http-proxy=false')).toBe(kind === 'podman');
});

test.each(['/a,ro=false', '/a"b', '/a\nb'])(
  'a path that an engine would read as more than a path is refused: %j',
  (path) => {
    expect(() => createArguments(engine('podman'), wanted(path))).toThrow('cannot be shown a path');
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
  expect(environmentLines({ A: 'b=c #d', E: '' })).toBe('A=b=c #d\nE=\n');
  for (const env of [{ A: 'b\nSECRET=x' }, { '#A': 'b' }, { 'A\nB': 'c' }, { '': 'x' }]) {
    expect(() => environmentLines(env as Record<string, string>)).toThrow('cannot be given to a container');
  }
});

test('the image of this machine is an archive that others can read, the same each time', () => {
  const link = { inside: '/opt/tool', target: '../srv/tool' };
  const image = localImage({ uid: 5, gid: 6 }, [link]);
  const listed = execFileSync('tar', ['--numeric-owner', '-tvf', '-'], { input: image.content, encoding: 'utf8' });
  expect(listed).toContain('opt/tool -> ../srv/tool');
  expect(listed).toMatch(/drwxr-xr-x .* tmp\/$/m);
  expect(listed).toMatch(/drwxr-xr-x 5\/6 .* workspace\/$/m);
  const passwd = execFileSync('tar', ['-xOf', '-', 'etc/passwd'], { input: image.content, encoding: 'utf8' });
  expect(passwd).toBe('sandbox:x:5:6::/tmp/home:/bin/sh\n');
  expect(localImage({ uid: 5, gid: 6 }, [link]).name).toBe(image.name);
  expect(localImage({ uid: 5, gid: 6 }, []).name).not.toBe(image.name);
  expect(() => localImage({ uid: 5, gid: 6 }, [{ ...link, target: 'x'.repeat(101) }])).toThrow('too long');
});

test.each(['x64', 'arm64'] as const)(
  'the filter for %s allows by name what the other sandbox allows by number',
  (arch) => {
    expect(seccompFilter(arch).length).toBeGreaterThan(0);
    const { defaultAction, defaultErrnoRet, syscalls } = JSON.parse(seccompProfile(arch)) as {
      defaultAction: string;
      defaultErrnoRet: number;
      syscalls: { names: string[]; action: string; args?: unknown[] }[];
    };
    expect([defaultAction, defaultErrnoRet]).toEqual(['SCMP_ACT_ERRNO', 38]);
    const allowed = syscalls.filter(({ action }) => action === 'SCMP_ACT_ALLOW');
    const always = allowed.filter(({ args = [] }) => args.length === 0).flatMap(({ names }) => names);
    expect(always).toEqual(plainCalls);
    expect(refusedCalls.filter((call) => allowed.some(({ names }) => names.includes(call)))).toEqual([]);
    for (const judged of ['clone', 'clone3', 'openat', 'openat2', 'ioctl', 'socket', 'chmod', 'mknodat']) {
      expect(always).not.toContain(judged);
    }
    expect(always.length).toBeLessThan(newestCall);
  },
);

test('mounts are read as the kernel writes them', () => {
  const line = String.raw`36 35 98:0 /a\040b /mnt\134x\011y rw,noatime master:1 - ext3 /dev/root rw`;
  expect(parseMounts(`${line}\n37 36 0:1 / /p ro - tmpfs none rw\n`)).toEqual([
    { id: '36', device: '98:0', root: '/a b', place: '/mnt\\x\ty', writable: true },
    { id: '37', device: '0:1', root: '/', place: '/p', writable: false },
  ]);
});
