import { beforeAll, expect, test } from 'vitest';
import { type Account, canChange, ordinary, own } from '../../workspaces/saferoot/accounts.ts';
import { followed, lookInside, notGranted, type Seen } from './scene.ts';

export const accounts = [['this account', own] as const, ...(canChange ? [['uid 1500', ordinary] as const] : [])];

/** What differs between a sandbox of bwrap and a container. */
interface Differences {
  readonly runner: 'bwrap' | 'container';
  readonly processes: number;
  readonly env: Readonly<Record<string, string>>;
  /** What comes of writing to /dev/shm. */
  readonly sharedMemory: string;
}

/** Looks inside once, and tests what holds in every sandbox. */
export function testIsolation(account: Account, { runner, processes, env, sharedMemory }: Differences): () => Seen {
  let seen: Seen;
  beforeAll(async () => {
    seen = await lookInside(account, runner);
  });

  test('P5: has exactly the documented environment, and in a container the one variable that podman always sets', () => {
    const workspace = `${seen.folder}/ws`;
    expect(seen.report.env).toEqual({
      PATH: expect.stringMatching(/(?:^|:)\/usr\/local\/bin:\/usr\/bin:\/bin$/),
      HOME: '/tmp/home',
      LANG: 'C.UTF-8',
      TMPDIR: '/tmp',
      PWD: workspace,
      AMBIT_SESSION_ID: 's1',
      SECRET: 'told only inside',
      ...env,
    });
    expect(seen.report.cwd).toBe(workspace);
    expect(seen.report.hostname).toBe('sandbox');
  });

  test('has no capability, cannot gain one, and sees only its own processes', () => {
    const { status } = seen.report;
    for (const set of ['CapInh', 'CapPrm', 'CapEff', 'CapBnd', 'CapAmb']) expect(status[set]).toBe('0000000000000000');
    expect(status).toMatchObject({ NoNewPrivs: '1', Seccomp: '2' });
    expect(seen.report.processes).toBe(processes);
  });

  test('inherits no descriptor that leads anywhere', () => {
    const { descriptors } = seen.report;
    expect(descriptors.filter((target) => target !== '/dev/null' && !target.startsWith('/proc/'))).toEqual([]);
  });

  test('writes to its workspace, to what is writable and to a bounded /tmp, and nowhere else', () => {
    expect(seen.report.write).toEqual([
      ...['written', 'EROFS', 'written', 'EROFS', 'EROFS', 'EROFS', 'EROFS', 'EROFS'],
      // A folder of the private /tmp, made to hold what is shown below it.
      expect.stringMatching(/^(?:written|EROFS)$/),
      ...['written', 'written', 'EROFS', 'EROFS', sharedMemory, 'EROFS', 'EROFS'],
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
    for (const host of notGranted) expect(seen.hosts[host]?.through).toMatch(/^HTTP\/1\.1 403 /);
    expect(Object.values(seen.hosts).map(({ past }) => past)).toEqual(['ECONNREFUSED', 'ECONNREFUSED', 'ENETUNREACH']);
  });

  return () => seen;
}
