import { once } from 'node:events';
import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { createServer } from 'node:net';
import { dirname, join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { Mount } from '../../../src/sandbox/common/confinement.ts';
import type { ProcessLaunch, RunningProcess } from '../../../src/sandbox/runner.ts';
import { hasBwrap } from '../../needs/bwrap.ts';
import { counts } from '../../proof.ts';
import { createSandboxHarness, type SandboxHarness } from './sandbox-harness.ts';

let harness: SandboxHarness;
let folder: string;
let ws: string;

function put(path: string, content: string): void {
  mkdirSync(dirname(join(folder, path)), { recursive: true });
  writeFileSync(join(folder, path), content);
}

/** Stands before the real bwrap: once it has its arguments, it lets a script run, and then goes on. */
function putSlowBwrap(bin: string): void {
  mkdirSync(bin);
  const args = join(bin, 'args-$$');
  const lines = [
    '#!/bin/sh',
    `cat <&3 >${args}`,
    `sh ${join(bin, 'meanwhile')} >&2`,
    `exec /usr/bin/bwrap "$@" 3<${args}`,
  ];
  writeFileSync(join(bin, 'bwrap'), `${lines.join('\n')}\n`);
  chmodSync(join(bin, 'bwrap'), 0o755);
  happensMeanwhile(':');
}

const happensMeanwhile = (script: string) => writeFileSync(join(harness.folder, 'bin/meanwhile'), script);

function shell(script: string, more: Partial<ProcessLaunch> = {}): Promise<RunningProcess> {
  const launch = harness.launch(['-c', script]);
  if (launch.confinement === undefined) throw new Error('Nothing says what it may do.');
  const toMount = (name: string): Mount => ({ source: join(folder, name), target: join(folder, name) });
  const confinement = {
    ...launch.confinement,
    home: { ...toMount('ws'), guard: { git: 'read' as const } },
    readable: [toMount('program')],
  };
  return harness.runner.start({ ...launch, command: '/bin/sh', confinement, ...more });
}

/** A repository makes `hk` read-only as a whole, and `hk/sub/server` by itself: nothing holds what lies in between. */
function putTrap(leadsTo: string): void {
  put('ws/deep/y/.git/HEAD', 'ref: refs/heads/main\n');
  put('ws/deep/y/.git/config', '[core]\n\thooksPath = hk\n\teditor = hk/sub/server\n');
  put('ws/deep/y/hk/sub/server', 'of the attacker');
  symlinkSync(leadsTo, join(ws, 'deep/y/hk/link'));
}

const swap = (at: string) => `cd ${join(ws, at)} && mv sub real && mv link sub`;
const childrenOf = (pid: number) =>
  readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(' ').map(Number);
const swapBack = 'mv sub link && mv real sub';

describe.skipIf(!hasBwrap())('S4: what a server in a sandbox does while another one is set up', () => {
  beforeAll(async () => {
    const bin: string[] = [];
    harness = await createSandboxHarness(() => bin[0]);
    bin.push(join(harness.folder, 'bin'));
    putSlowBwrap(bin[0] as string);
    await harness.runner.probe();
  });
  beforeEach(() => {
    happensMeanwhile(':');
    folder = mkdtempSync(join(harness.folder, 'test-'));
    ws = join(folder, 'ws');
    mkdirSync(join(folder, 'outside'));
    put('program/server', 'of the operator');
    mkdirSync(ws);
  });
  afterAll(() => harness.stop());

  test('S4: a program with a wrong mount through a link does not run', async () => {
    putTrap(join('/newroot', folder, 'program'));
    happensMeanwhile(swap('deep/y/hk'));
    const started = shell(`cat ${join(folder, 'program/server')}`).then(({ stdout }) => text(stdout));
    await expect(started).rejects.toMatchObject({ code: 'SANDBOX_UNAVAILABLE' });
    expect(readFileSync(join(folder, 'program/server'), 'utf8')).toBe('of the operator');
  });

  test('S4: nothing is made outside where a folder on the way to a socket becomes a link', async () => {
    mkdirSync(join(ws, 's/sub/deep'), { recursive: true });
    const servers = ['s/sub/one', 's/sub/deep/two'].map((name) => createServer().listen(join(ws, name)));
    await Promise.all(servers.map((server) => once(server, 'listening')));
    const beforeSpawn = () => {
      renameSync(join(ws, 's/sub'), join(ws, 's/real'));
      symlinkSync(join('/oldroot', folder, 'outside'), join(ws, 's/sub'));
    };
    const started = shell('cat s/*/one', { beforeSpawn }).then(({ stdout }) => text(stdout));
    await expect(started).rejects.toMatchObject({ code: 'SANDBOX_UNAVAILABLE' });
    expect(readdirSync(join(folder, 'outside'))).toEqual([]);
    for (const server of servers) server.close();
  });

  test('S4: servers of the workspace are paused meanwhile, and continue afterwards', async () => {
    const swaps = `${swap('deep/y/hk')}; ${swapBack}; echo again`;
    const hostile = await shell(
      `exec 2>/dev/null; until [ -e begin ]; do echo again; done; while :; do ${swaps}; done`,
    );
    await once(hostile.stdout, 'data');
    const [first = 0] = childrenOf(hostile.pid ?? 0);
    const still = [hostile.pid, first, ...childrenOf(first)];
    happensMeanwhile(`for each in ${still.join(' ')}; do grep State: /proc/$each/status; done`);
    const start = async () => {
      const { stdout, stderr, exited } = await shell(`cat ${join(folder, 'program/server')}`);
      const [said, states, { reason }] = await Promise.all([text(stdout), text(stderr), exited]);
      return { said: reason ?? said, states: states.match(/State:\s+\S/g) };
    };
    expect(await start()).toEqual({ said: 'of the operator', states: still.map(() => 'State:\tT') });
    await once(hostile.stdout, 'data');
    // Only what was there before the hostile one started is guarded from it.
    putTrap(join('/oldroot', folder, 'outside'));
    put('ws/begin', '');
    for (let run = 0; run < counts(2, 100); run++) {
      const { said } = await start().catch(({ code }) => ({ said: code }));
      // It is ended where the look that follows the start finds the folder swapped again.
      expect(said).toMatch(/^(of the operator|SANDBOX_UNAVAILABLE|".+", which is read-only for it, was replaced; .*)$/);
      await once(hostile.stdout, 'data');
    }
    expect(readdirSync(join(folder, 'outside'))).toEqual([]);
    await hostile.end();
  });
});
