import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import {
  describeLimits,
  type Examination,
  examineMachine,
  renderExamination,
} from '../../../src/cli/commands/doctor.ts';
import type { Machine } from '../../../src/sandbox/common/machine.ts';
import { bwrapFailed, bwrapMissing } from '../../../src/sandbox/common/sandbox-errors.ts';
import { runAmbit } from '../../journeys/start-ambit.ts';
import { hasBwrap, pathWithoutBwrap } from '../../needs/bwrap.ts';
import { ambitInProcess } from '../in-process.ts';

let folder = '';
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'ambit-examined-'));
});
afterEach(() => {
  vi.unstubAllEnvs();
  rmSync(folder, { recursive: true, force: true });
});

const debian: Machine = {
  platform: 'linux',
  isRoot: false,
  appArmorRestricts: false,
  userNamespacesOff: false,
  noUserNamespacesLeft: false,
  isContainer: false,
  hasSystemd: true,
  cgroups: 2,
  install: 'apt-get install -y',
};
const root = { isRoot: true };

describe('the remedy fits the machine', () => {
  const failed = (more: Partial<Machine>, said = 'bwrap: setting up uid map: Permission denied') =>
    bwrapFailed(said, { ...debian, ...more }).hint;

  test.each([
    ['a missing package', bwrapMissing(debian).hint, 'sudo apt-get install -y bubblewrap'],
    ['for root', bwrapMissing({ ...debian, ...root }).hint, ': apt-get install -y bubblewrap'],
    ['Fedora', bwrapMissing({ ...debian, install: 'dnf install -y' }).hint, 'sudo dnf install -y bubblewrap'],
    [
      'where packages come from is not known',
      bwrapMissing({ ...debian, install: undefined }).hint,
      'package bubblewrap',
    ],
    ['macOS', bwrapMissing({ ...debian, platform: 'darwin' }).hint, 'Run Ambit on Linux'],
    ['Ubuntu', failed({ appArmorRestricts: true }), 'sudo apparmor_parser -r /etc/apparmor.d/bwrap-userns-restrict'],
    ['a kernel without user namespaces', failed({ userNamespacesOff: true }), 'kernel.unprivileged_userns_clone=1'],
    ['a kernel that has none left', failed({ noUserNamespacesLeft: true }), 'user.max_user_namespaces=15000'],
    ['a container', failed({ isContainer: true, appArmorRestricts: true }), 'docker run --security-opt seccomp='],
    ['an old bwrap', failed({}, 'bwrap: Unknown option --disable-userns'), '0.8 or newer'],
    ['none of these', failed({}), 'bwrap --unshare-all'],
  ])('%s', (_, hint, expected) => {
    expect(hint).toContain(expected);
  });

  test.each([
    ['a user without a session of systemd', {}, 'loginctl enable-linger'],
    ['a service', root, 'Delegate=yes'],
    ['version 1, which is for root', { cgroups: 1 }, 'as root'],
    ['a container', { isContainer: true }, '--cgroupns=private'],
    ['macOS', { platform: 'darwin' }, undefined],
  ] as const)('limits: %s', (_, more, expected) => {
    const inForce = { memoryMb: 'watchdog', pids: 'rlimit each', cpus: 'priority', fileMb: 'none' } as const;
    const limits = { ...inForce, openFiles: 'rlimit', wallSeconds: 'timer' } as const;
    const [memory, pids, cpus, file, , wall] = describeLimits(limits, { ...debian, ...more });
    expect(memory).toMatchObject({
      state: 'weak',
      remedy: expected === undefined ? null : expect.stringContaining(expected),
    });
    expect(pids).toMatchObject({ state: 'weak', remedy: memory?.remedy?.replace('"memory"', '"pids"') ?? null });
    expect(cpus?.state).toBe('weak');
    expect(file).toMatchObject({ state: 'missing', remedy: expect.stringContaining('util-linux') });
    expect(wall?.state).toBe('ok');
  });
});

test('a difference of containers is shown, but not the mechanism of the kernel', () => {
  const kernel = { memoryMb: 'cgroup v2', pids: 'cgroup v2', cpus: 'cgroup v2', fileMb: 'rlimit' } as const;
  const limits = { ...kernel, openFiles: 'rlimit', wallSeconds: 'timer' } as const;
  const inContainers = { ...limits, memoryMb: 'cgroup v1', pids: 'container each', cpus: 'container each' } as const;
  expect(describeLimits(limits, debian, inContainers).map(({ detail }) => detail)).toEqual([
    'enforced by the kernel (cgroup v2)',
    'enforced by the kernel (cgroup v2); in containers: enforced by the kernel for each process (container), for the session as a whole by Ambit, which checks twice a second',
    'enforced by the kernel (cgroup v2); in containers: enforced by the kernel for each process (container), not enforced for the session as a whole',
    'enforced by the kernel (rlimit)',
    'enforced by the kernel (rlimit)',
    'enforced by Ambit',
  ]);
});

describe('the findings on this machine', () => {
  const states = ({ findings }: Examination) => Object.fromEntries(findings.map(({ name, state }) => [name, state]));

  test.skipIf(!hasBwrap())('a sandbox that works, a store, and nothing is left behind', async () => {
    // Other tests use the common place for temporary files at the same time.
    const place = join(folder, 'tmp');
    mkdirSync(place);
    vi.stubEnv('TMPDIR', place);
    const found = await examineMachine({ store: { kind: 'sqlite' }, dataDir: join(folder, 'not/there') });
    expect(found.ok).toBe(true);
    expect(states(found)).toMatchObject({
      plain: 'ok',
      bwrap: 'ok',
      sqlite: 'ok',
      'file access': 'ok',
      wallSeconds: 'ok',
    });
    expect(readdirSync(folder)).toEqual(['tmp']);
    expect(readdirSync(place)).toEqual([]);
  });

  test('a missing sandbox and a missing store each have a remedy', async () => {
    vi.stubEnv('PATH', pathWithoutBwrap);
    const found = await examineMachine({
      store: { kind: 'redis', redis: { url: 'redis://127.0.0.1:1' } },
      dataDir: folder,
    });
    expect(found.ok).toBe(false);
    expect(states(found)).toMatchObject({ plain: 'ok', bwrap: 'missing', redis: 'missing' });
    for (const { state, remedy } of found.findings) if (state === 'missing') expect(remedy).toMatch(/./);
    const shown = renderExamination(found);
    expect(shown.split('\n').filter((line) => line.length > 80)).toEqual([]);
    expect(shown).toMatch(/^bwrap +missing +"bwrap" was not found on/m);
    expect(shown.replace(/\s+/g, ' ')).toContain('bwrap: Install bubblewrap 0.8 or newer');
  });

  test.skipIf(!hasBwrap())('ambit doctor prints it, with and without a configuration', async () => {
    const places = (config: string) => ['--config', join(folder, config), '--data-dir', join(folder, 'data')];
    writeFileSync(join(folder, 'ambit.yaml'), 'version: 1\nstore: { kind: memory }\n');
    const [plain, { code, stdout }] = await Promise.all([
      runAmbit(['doctor', ...places('none.yaml')]),
      ambitInProcess(['doctor', '--json', ...places('ambit.yaml')]),
    ]);
    expect(plain).toMatchObject({ code: 0, stdout: expect.stringMatching(/^store sqlite +ok/m) });
    expect(code).toBe(0);
    expect(states(JSON.parse(stdout) as Examination)).toMatchObject({ memory: 'weak', bwrap: 'ok' });
    expect(readdirSync(folder)).toEqual(['ambit.yaml']);
  });
});
