import { readlinkSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { hasPodman } from '../../needs/podman.ts';
import { dangerousCalls } from '../bwrap/dangerous-calls.ts';
import { accounts, testIsolation } from '../bwrap/isolation-suite.ts';

const EPERM = 1;
const ENOSYS = 38;

describe.skipIf(!hasPodman()).each(accounts)('a container made of this machine as %s', (_, account) => {
  const env = { HOSTNAME: 'sandbox' };
  const seen = testIsolation(account, { runner: 'container', processes: 1, env, sharedMemory: 'ENOENT' });

  test('is what the probe says it is, and ends with its input', () => {
    expect(seen().enforced).toEqual({
      noCapabilities: true,
      noNewPrivileges: true,
      seccomp: true,
      noNetwork: true,
      ownProcesses: true,
      ownIpc: true,
      ownHostname: true,
      readOnlySystem: true,
    });
    const { memoryMb, pids } = seen().limits;
    // An ordinary account has no control groups of version 1.
    expect(pids).toBe(memoryMb);
    expect(memoryMb).toMatch(account.uid === 0 ? /^(?:cgroup v[12]|container each)$/ : /^(?:container each|watchdog)$/);
    expect(seen().exit).toEqual({ code: 0, signal: null });
  });

  test('finds nothing of Ambit on the command line or in the environment of its first process, which is the server', () => {
    const { cmdline, environ } = seen().report.first;
    expect(cmdline).toBe(`${process.execPath}\0${seen().folder}/program/looks-around.js\0`);
    const variables = environ.split('\0').filter((line) => line !== '');
    expect(variables.sort()).toEqual(
      Object.entries(seen().report.env)
        .map(([name, value]) => `${name}=${value}`)
        .sort(),
    );
    expect(environ).not.toMatch(/not to be told|HOST_SECRET|AMBIT_TEST/);
  });

  test('is in other namespaces than the machine, but for that of the users', () => {
    const kinds = ['ipc', 'mnt', 'net', 'pid', 'uts'];
    const shared = kinds.filter((kind) => seen().report.namespaces[kind] === readlinkSync(`/proc/self/ns/${kind}`));
    expect(shared).toEqual([]);
    expect(Object.keys(seen().report.namespaces)).toEqual(expect.arrayContaining(kinds));
  });

  test('reads what it was granted, and nothing else', () => {
    expect(seen().report.read).toEqual([
      'mine',
      'granted',
      'granted',
      ...['ENOENT', 'ENOENT', 'ENOENT', 'ENOENT'],
      ['program', 'readable', 'writable', 'ws'],
      '{"keys":[]}',
      // Covered: an empty folder, and a device that gives nothing.
      ...['ENOENT', 'ENOENT', 'ENOENT', [], '', 'ENOENT', 'ENOENT'],
    ]);
    // Where a volume would be; empty here, and read-only.
    const expected = /^(?:bin|sbin|lib\w*|usr|nix|gnu|dev|etc|proc|run|sys|tmp|workspace)$/;
    expect(seen().report.root.filter((name) => !expected.test(name))).toEqual([]);
  });

  test('sees no kernel information about the machine', () => {
    const { covered } = seen().report;
    expect(covered).toContain('covered');
    expect(covered.slice(0, -1).filter((each) => each !== 'covered' && each !== 'ENOENT')).toEqual([]);
  });

  test('is refused every system call that reaches out of it', () => {
    const { calls } = seen().report;
    const known = Object.keys(dangerousCalls).filter((call) => call in calls);
    expect(known.length).toBeGreaterThan(50);
    // One that the engine's own library does not know yet is not there at all.
    expect(known.filter((call) => calls[call] !== EPERM && calls[call] !== ENOSYS)).toEqual([]);
    expect(calls).toMatchObject({
      ptrace: EPERM,
      io_uring_setup: EPERM,
      'clone into a user namespace': EPERM,
      clone3: ENOSYS,
      vsock: ENOSYS,
      packet: ENOSYS,
      TIOCSTI: EPERM,
      'TIOCSTI with bits that the kernel ignores': EPERM,
      TIOCLINUX: EPERM,
      'a call of tomorrow': ENOSYS,
    });
  });
});
