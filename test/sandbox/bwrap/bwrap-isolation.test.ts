import { spawnSync } from 'node:child_process';
import { closeSync, openSync, readlinkSync } from 'node:fs';
import { beforeAll, describe, expect, test } from 'vitest';
import { bwrapArguments } from '../../../src/sandbox/bwrap/bwrap-arguments.ts';
import { hasBwrap } from '../../needs/bwrap.ts';
import { canChange, ordinary, own } from '../../workspaces/saferoot/accounts.ts';
import { dangerousCalls } from './dangerous-calls.ts';
import { followed, lookInside, notGranted, type Seen } from './scene.ts';

const accounts = [['this account', own] as const, ...(canChange ? [['uid 1500', ordinary] as const] : [])];
const EPERM = 1;
const ENOSYS = 38;
const EAFNOSUPPORT = 97;

describe.skipIf(!hasBwrap()).each(accounts)('a sandbox started as %s', (_, account) => {
  let seen: Seen;
  beforeAll(async () => {
    seen = await lookInside(account);
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
      ownUsers: true,
      readOnlySystem: true,
    });
    expect(seen.exit).toEqual({ code: 0, signal: null });
  });

  test('P5: has exactly the documented environment', () => {
    expect(seen.report.env).toEqual({
      PATH: expect.stringMatching(/(?:^|:)\/usr\/local\/bin:\/usr\/bin:\/bin$/),
      HOME: '/tmp/home',
      LANG: 'C.UTF-8',
      TMPDIR: '/tmp',
      PWD: at('ws'),
      AMBIT_SESSION_ID: 's1',
      SECRET: 'told only inside',
    });
    expect(seen.report.cwd).toBe(at('ws'));
    expect(seen.report.hostname).toBe('sandbox');
  });

  test('finds nothing of Ambit on the command line or in the environment of its first process', () => {
    const { cmdline, environ } = seen.report.first;
    expect(environ).toBe('');
    expect(cmdline.split('\0').slice(1, 4)).toEqual(['--args', '3', '--']);
    for (const secret of ['told only inside', 'HOST_SECRET', at('readable'), at('data'), '--setenv']) {
      expect(cmdline).not.toContain(secret);
    }
  });

  test('has no capability, cannot gain one, and sees only its own processes', () => {
    const { status, processes } = seen.report;
    for (const set of ['CapInh', 'CapPrm', 'CapEff', 'CapBnd', 'CapAmb']) expect(status[set]).toBe('0000000000000000');
    expect(status).toMatchObject({ NoNewPrivs: '1', Seccomp: '2' });
    expect(processes).toBe(2);
  });

  test('is in other namespaces than the machine, each of them', () => {
    const kinds = ['cgroup', 'ipc', 'mnt', 'net', 'pid', 'user', 'uts'];
    const shared = kinds.filter((kind) => seen.report.namespaces[kind] === readlinkSync(`/proc/self/ns/${kind}`));
    expect(shared).toEqual([]);
    expect(Object.keys(seen.report.namespaces)).toEqual(expect.arrayContaining(kinds));
  });

  test('is in a session of its own, so that no terminal is reached from it', () => {
    expect(seen.report.session).toBeGreaterThan(0);
  });

  test('runs as an ordinary user in an ordinary group', () => {
    const { Uid, Gid } = seen.report.status;
    expect([Uid, Gid]).toEqual(['1000\t1000\t1000\t1000', '1000\t1000\t1000\t1000']);
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
      ...['ENOENT', 'ENOENT', 'ENOENT', 'ENOENT', 'EACCES', 'ENOENT', 'ENOENT'],
    ]);
    expect(
      seen.report.root.filter((name) => !/^(?:bin|sbin|lib\w*|usr|nix|gnu|dev|etc|proc|run|tmp)$/.test(name)),
    ).toEqual([]);
  });

  test('sees no account and no host name of the machine', () => {
    expect(seen.report.etc).toEqual({
      passwd: 'sandbox:x:1000:1000::/tmp/home:/bin/sh\n',
      group: 'sandbox:x:1000:\n',
      hosts: '127.0.0.1 localhost\n::1 localhost\n',
    });
  });

  test('sees no kernel information about the machine, and no terminal', () => {
    const { covered } = seen.report;
    expect(covered).toContain('covered');
    expect(covered.filter((each) => each !== 'covered' && each !== 'ENOENT')).toEqual([]);
  });

  test('writes to its workspace, to what is writable and to a bounded /tmp, and nowhere else', () => {
    expect(seen.report.write).toEqual([
      ...['written', 'EROFS', 'written', 'EROFS', 'EROFS', 'EROFS', 'EROFS', 'EROFS'],
      // A folder of the private /tmp, made to hold what is shown below it.
      expect.stringMatching(/^(?:written|EROFS)$/),
      ...['written', 'written', 'EROFS', 'EROFS', 'EROFS', 'EROFS', 'EROFS'],
    ]);
    expect(seen.report.tmpBytes).toBe(64 << 20);
  });

  test('cannot write files that a trusted program follows, nor move their folders away', () => {
    expect(followed.filter((_, index) => seen.report.ordered[index] !== 'EROFS')).toEqual([]);
    expect(seen.report.moved).toEqual(['EBUSY', 'EBUSY']);
  });

  test('cannot write kernel files even if Ambit is root', () => {
    expect(seen.report.proc).toEqual([]);
    expect(seen.report.device).toBe('EPERM');
  });

  test('cannot make set-user-ID files', () => {
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
