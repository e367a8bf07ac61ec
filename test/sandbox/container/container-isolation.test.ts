import { readlinkSync } from 'node:fs';
import { beforeAll, describe, expect, test } from 'vitest';
import { hasPodman } from '../../needs/podman.ts';
import { canChange, ordinary, own } from '../../workspaces/saferoot/accounts.ts';
import { dangerousCalls } from '../bwrap/dangerous-calls.ts';
import { followed, lookInside, notGranted, type Seen } from '../bwrap/scene.ts';

const EPERM = 1;
const ENOSYS = 38;

const accounts = [['this account', own] as const, ...(canChange ? [['uid 1500', ordinary] as const] : [])];

describe.skipIf(!hasPodman()).each(accounts)('a container made of this machine as %s', (_, account) => {
  let seen: Seen;
  beforeAll(async () => {
    seen = await lookInside(account, 'container');
  });
  const at = (name: string) => `${seen.folder}/${name}`;

  test('is what the probe says it is, and ends with its input', () => {
    expect(seen.enforced).toEqual({
      noCapabilities: true,
      noNewPrivileges: true,
      seccomp: true,
      noNetwork: true,
      ownProcesses: true,
      ownIpc: true,
      ownHostname: true,
      readOnlySystem: true,
    });
    const { memoryMb, pids } = seen.limits;
    // An ordinary account has no control groups of version 1.
    expect(pids).toBe(memoryMb);
    expect(memoryMb).toMatch(account.uid === 0 ? /^(?:cgroup v[12]|container each)$/ : /^(?:container each|watchdog)$/);
    expect(seen.exit).toEqual({ code: 0, signal: null });
  });

  test('P5: has exactly the documented environment, and the one variable that podman always sets', () => {
    expect(seen.report.env).toEqual({
      PATH: expect.stringMatching(/(?:^|:)\/usr\/local\/bin:\/usr\/bin:\/bin$/),
      HOME: '/tmp/home',
      LANG: 'C.UTF-8',
      TMPDIR: '/tmp',
      PWD: at('ws'),
      AMBIT_SESSION_ID: 's1',
      SECRET: 'told only inside',
      HOSTNAME: 'sandbox',
    });
    expect(seen.report.cwd).toBe(at('ws'));
    expect(seen.report.hostname).toBe('sandbox');
  });

  test('finds nothing of Ambit on the command line or in the environment of its first process, which is the server', () => {
    const { cmdline, environ } = seen.report.first;
    expect(cmdline).toBe(`${process.execPath}\0${at('program/looks-around.js')}\0`);
    const told = environ.split('\0').filter((line) => line !== '');
    expect(told.sort()).toEqual(
      Object.entries(seen.report.env)
        .map(([name, value]) => `${name}=${value}`)
        .sort(),
    );
    expect(environ).not.toMatch(/not to be told|HOST_SECRET|AMBIT_TEST/);
  });

  test('has no capability, cannot gain one, and sees only its own processes', () => {
    const { status, processes } = seen.report;
    for (const set of ['CapInh', 'CapPrm', 'CapEff', 'CapBnd', 'CapAmb']) expect(status[set]).toBe('0000000000000000');
    expect(status).toMatchObject({ NoNewPrivs: '1', Seccomp: '2' });
    expect(processes).toBe(1);
  });

  test('is in other namespaces than the machine, but for that of the users', () => {
    const kinds = ['ipc', 'mnt', 'net', 'pid', 'uts'];
    const shared = kinds.filter((kind) => seen.report.namespaces[kind] === readlinkSync(`/proc/self/ns/${kind}`));
    expect(shared).toEqual([]);
    expect(Object.keys(seen.report.namespaces)).toEqual(expect.arrayContaining(kinds));
  });

  test('inherits no descriptor that leads anywhere', () => {
    expect(seen.report.descriptors.filter((target) => target !== '/dev/null' && !target.startsWith('/proc/'))).toEqual(
      [],
    );
  });

  test('reads what it was granted, and nothing else', () => {
    expect(seen.report.read).toEqual([
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
    expect(seen.report.root.filter((name) => !expected.test(name))).toEqual([]);
  });

  test('sees no kernel information about the machine', () => {
    const { covered } = seen.report;
    expect(covered).toContain('covered');
    expect(covered.slice(0, -1).filter((each) => each !== 'covered' && each !== 'ENOENT')).toEqual([]);
  });

  test('writes to its workspace, to what is writable and to a bounded /tmp, and nowhere else', () => {
    expect(seen.report.write).toEqual([
      ...['written', 'EROFS', 'written', 'EROFS', 'EROFS', 'EROFS', 'EROFS', 'EROFS'],
      // A folder of the private /tmp, made to hold what is shown below it.
      expect.stringMatching(/^(?:written|EROFS)$/),
      ...['written', 'written', 'EROFS', 'EROFS', 'ENOENT', 'EROFS', 'EROFS'],
    ]);
    expect(seen.report.tmpBytes).toBe(64 << 20);
  });

  test('cannot write files that a trusted program follows, nor move their folders away', () => {
    expect(followed.filter((_, index) => seen.report.ordered[index] !== 'EROFS')).toEqual([]);
    expect(seen.report.moved).toEqual(['EBUSY', 'EBUSY']);
  });

  test('cannot write kernel files even if Ambit is root, nor make set-user-ID files', () => {
    expect(seen.report.proc).toEqual([]);
    expect(seen.report.setId).toEqual(['EPERM', 'EPERM']);
  });

  test('has no network: no host, no abstract socket, no internet', () => {
    expect(seen.report.interfaces.filter((name) => name !== 'lo')).toEqual([]);
    expect(seen.report.reached).toEqual(['ECONNREFUSED', 'ECONNREFUSED', 'ENETUNREACH']);
  });

  test('reaches the host it was granted, by its proxy, and no other', () => {
    expect(seen.hosts[seen.granted]?.through).toMatch(/^HTTP\/1\.1 200 [\s\S]*reached$/);
    for (const place of notGranted) expect(seen.hosts[place]?.through).toMatch(/^HTTP\/1\.1 403 /);
    expect(Object.values(seen.hosts).map(({ past }) => past)).toEqual(['ECONNREFUSED', 'ECONNREFUSED', 'ENETUNREACH']);
  });

  test('is refused every system call that reaches out of it', () => {
    const { calls } = seen.report;
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
