import { spawnSync } from 'node:child_process';
import { closeSync, openSync, readlinkSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { bwrapArguments } from '../../../src/sandbox/bwrap/bwrap-arguments.ts';
import { hasBwrap } from '../../needs/bwrap.ts';
import { dangerousCalls } from './dangerous-calls.ts';
import { accounts, testIsolation } from './isolation-suite.ts';

const EPERM = 1;
const ENOSYS = 38;
const EAFNOSUPPORT = 97;

describe.skipIf(!hasBwrap()).each(accounts)('a sandbox started as %s', (_, account) => {
  const seen = testIsolation(account, { runner: 'bwrap', processes: 2, env: {}, sharedMemory: 'EROFS' });

  test('is what the probe says it is, and ends with its input', () => {
    expect(seen().enforced).toEqual({
      noCapabilities: true,
      noNewPrivileges: true,
      seccomp: true,
      noNetwork: true,
      ownProcesses: true,
      ownIpc: true,
      ownHostname: true,
      ownUsers: true,
      readOnlySystem: true,
    });
    expect(seen().exit).toEqual({ code: 0, signal: null });
  });

  test('finds nothing of Ambit on the command line or in the environment of its first process', () => {
    const { cmdline, environ } = seen().report.first;
    expect(environ).toBe('');
    expect(cmdline.split('\0').slice(1, 4)).toEqual(['--args', '3', '--']);
    const { folder } = seen();
    for (const secret of ['told only inside', 'HOST_SECRET', `${folder}/readable`, `${folder}/data`, '--setenv']) {
      expect(cmdline).not.toContain(secret);
    }
  });

  test('is in other namespaces than the machine, each of them', () => {
    const kinds = ['cgroup', 'ipc', 'mnt', 'net', 'pid', 'user', 'uts'];
    const shared = kinds.filter((kind) => seen().report.namespaces[kind] === readlinkSync(`/proc/self/ns/${kind}`));
    expect(shared).toEqual([]);
    expect(Object.keys(seen().report.namespaces)).toEqual(expect.arrayContaining(kinds));
  });

  test('is in a session of its own, so that no terminal is reached from it', () => {
    expect(seen().report.session).toBeGreaterThan(0);
  });

  test('runs as an ordinary user in an ordinary group', () => {
    const { Uid, Gid } = seen().report.status;
    expect([Uid, Gid]).toEqual(['1000\t1000\t1000\t1000', '1000\t1000\t1000\t1000']);
  });

  test('reads what it was granted, and nothing else', () => {
    expect(seen().report.read).toEqual([
      'mine',
      'granted',
      'granted',
      ...['ENOENT', 'ENOENT', 'ENOENT', 'ENOENT'],
      ['program', 'readable', 'writable', 'ws'],
      '{"keys":[]}',
      ...['ENOENT', 'ENOENT', 'ENOENT', 'ENOENT', 'EACCES', 'ENOENT', 'ENOENT'],
    ]);
    expect(
      seen().report.root.filter((name) => !/^(?:bin|sbin|lib\w*|usr|nix|gnu|dev|etc|proc|run|tmp)$/.test(name)),
    ).toEqual([]);
  });

  test('sees no account and no host name of the machine', () => {
    expect(seen().report.etc).toEqual({
      passwd: 'sandbox:x:1000:1000::/tmp/home:/bin/sh\n',
      group: 'sandbox:x:1000:\n',
      hosts: '127.0.0.1 localhost\n::1 localhost\n',
    });
  });

  test('sees no kernel information about the machine, and no terminal', () => {
    const { covered } = seen().report;
    expect(covered).toContain('covered');
    expect(covered.filter((each) => each !== 'covered' && each !== 'ENOENT')).toEqual([]);
  });

  test('cannot take a device from the machine even if Ambit is root', () => {
    expect(seen().report.device).toBe('EPERM');
  });

  test('is refused every system call that reaches out of it', () => {
    const { calls } = seen().report;
    const known = Object.keys(dangerousCalls).filter((call) => call in calls);
    expect(known.length).toBeGreaterThan(50);
    expect(known.filter((call) => calls[call] !== EPERM)).toEqual([]);
    expect(calls).toMatchObject({
      'clone into a user namespace': EPERM,
      clone3: ENOSYS,
      vsock: EAFNOSUPPORT,
      packet: EAFNOSUPPORT,
      TIOCSTI: EPERM,
      'TIOCSTI with bits that the kernel ignores': EPERM,
      TIOCLINUX: EPERM,
      'a call of tomorrow': ENOSYS,
    });
  });
});

test.skipIf(!hasBwrap())(
  'the arguments of bwrap keep out the environment, and new namespaces even without the filter',
  () => {
    const mounts = { entries: [], links: [], guarded: { kept: [], readOnly: [] } };
    const read = { seccomp: 4, passwd: 5, group: 6, hosts: 7, block: 8, info: 9 };
    const rest = { tmpBytes: 1 << 20, mounts, numberOf: () => 0, read };
    const profile = bwrapArguments({ env: {}, workFolder: '/', devices: [], ...rest });
    const args = profile.toSpliced(profile.indexOf('--seccomp'), 2);
    const nothing = openSync('/dev/null', 'r+');
    try {
      const tried = spawnSync('bwrap', [...args, '/bin/sh', '-c', 'env; unshare --user true; echo $?'], {
        env: { PATH: process.env['PATH'], HOST_SECRET: 'never' },
        stdio: ['ignore', 'pipe', 'pipe', 'ignore', 'ignore', ...Array<number>(5).fill(nothing)],
        encoding: 'utf8',
      });
      expect(tried.stdout).not.toContain('HOST_SECRET');
      expect(tried.stdout).toMatch(/\n1\n$/);
      expect(tried.stderr).toContain('unshare failed');
    } finally {
      closeSync(nothing);
    }
  },
);
