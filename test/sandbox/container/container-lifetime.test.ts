import { execFileSync, fork } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { afterAll, afterEach, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { findProgramOnPath } from '../../../src/sandbox/common/find-program.ts';
import { sweepLeftovers } from '../../../src/sandbox/common/sweep-leftovers.ts';
import { createContainerRunner } from '../../../src/sandbox/container/container.ts';
import type { RunningProcess } from '../../../src/sandbox/runner.ts';
import { hasPodman } from '../../needs/podman.ts';
import { proof } from '../../proof.ts';
import { createSandboxHarness, does, processesIn, type SandboxHarness } from '../bwrap/sandbox-harness.ts';
import { textOf, until } from '../tagged-processes.ts';

let harness: SandboxHarness;
const create = (searchPath?: () => string | undefined) =>
  createSandboxHarness(searchPath, undefined, createContainerRunner);

/** Asked of podman itself, by what every container is labelled with. */
function containersOf(instance: string): string[] {
  const filter = ['--filter', `label=ambit.instance=${instance}`];
  const said = execFileSync('podman', ['ps', '--all', ...filter, '--format', '{{.Names}}'], { encoding: 'utf8' });
  return said.split('\n').filter((name) => name !== '');
}

/** The engine is asked only when nobody is at work on these containers any more: each question is a process. */
const gone = (instance: string, ofOthers = 0) =>
  until(
    () =>
      processesIn(harness.folder).length === ofOthers &&
      atWorkOn(instance).length === 0 &&
      containersOf(instance).length === 0,
    10_000,
    () => `left: ${processesIn(harness.folder)} ${containersOf(instance)}`,
  );
const atWorkOn = (instance: string) =>
  commandLines().filter((line) => line.includes(instance.replace('instance-', 'ambit-')));
const instanceOf = (root: string) => root.split('/').at(-1) as string;

/** Of each server there are two more, which have left their parent. */
const leftBehind = (servers = 1) =>
  until(
    () => processesIn(harness.folder).length === 3 * servers,
    10_000,
    () => 'nothing was left behind',
  );

describe.skipIf(!hasPodman())('what is in a container', () => {
  beforeAll(async () => {
    harness = await create();
  });
  afterAll(() => harness.stop());

  const started = async (deed: string, limits = {}): Promise<RunningProcess> => {
    const more = { sessionId: 'session-1', env: { SECRET: 'not to be seen' } };
    return (await harness.started([deed], limits, more)).running;
  };

  test('has the label of its session, no secret on a command line, and ends with all its processes', async () => {
    const running = await started('daemon');
    await leftBehind();
    const [name = ''] = containersOf(instanceOf(harness.root));
    const format = '{{index .Config.Labels "ambit.session"}}';
    expect(execFileSync('podman', ['inspect', '--format', format, name], { encoding: 'utf8' }).trim()).toBe(
      'session-1',
    );
    const lines = commandLines();
    expect(lines.some((line) => line.includes(name))).toBe(true);
    expect(lines.filter((line) => line.includes('not to be seen'))).toEqual([]);
    await running.end();
    await harness.reaper.settled();
    await gone(instanceOf(harness.root));
    expect(readdirSync(harness.root).filter((entry) => entry.startsWith('p'))).toEqual([]);
    expect(readdirSync(join(harness.root, 'containers'))).toEqual([]);
    expect(readFileSync('/proc/self/mountinfo', 'latin1')).not.toContain(harness.folder);
  });

  test.runIf(proof)('passes every byte in both directions, also control characters of terminals', async () => {
    const running = await harness.runner.start(harness.launch(['-e', 'process.stdin.pipe(process.stdout)']));
    const sent = Buffer.concat([randomBytes(2 << 20), Buffer.from([0x10, 0x11, 3, 4, 0x1a, 0])]);
    const received = buffer(running.stdout);
    running.stdin.end(sent);
    expect((await received).equals(sent)).toBe(true);
    expect(await running.exited).toEqual({ code: 0, signal: null });
  });

  test.runIf(proof)('leaves nothing behind, many times over', async () => {
    const atOnce = 4;
    for (let life = 0; life < 200; life += atOnce) {
      const batch = await Promise.all(
        Array.from({ length: atOnce }, () => harness.runner.start(harness.launch(['-e', 'process.stdin.resume()']))),
      );
      await Promise.all(batch.map((running) => running.end()));
    }
    await harness.reaper.settled();
    await gone(instanceOf(harness.root));
    expect(readdirSync(join(harness.root, 'containers'))).toEqual([]);
    expect(readFileSync('/proc/self/mountinfo', 'latin1')).not.toContain(harness.folder);
  });

  test('ends alone when the client of the engine is killed, and beyond its memory limit, with the reason', async () => {
    const [calm, orphaned, greedy] = await Promise.all([
      started('nothing'),
      started('daemon'),
      started('memory', { memoryMb: 150 }),
    ]);
    process.kill(orphaned.pid as number, 'SIGKILL');
    expect(await orphaned.exited).toEqual({ code: null, signal: 'SIGKILL' });
    expect(await greedy.exited).toMatchObject({ reason: expect.stringContaining('sandbox.memoryMb is 150') });
    await until(
      () => processesIn(harness.folder).length <= 1,
      10_000,
      () => `left: ${processesIn(harness.folder)}`,
    );
    expect(processesIn(harness.folder)).toHaveLength(1);
    await calm.end();
    await gone(instanceOf(harness.root));
  });

  test.runIf(proof)('ends when Ambit is killed; and when its reaper is killed too, with the next start', async () => {
    const victims = ['ambit', 'ambit and reaper', 'and the notes are lost'];
    const tmp = join(harness.folder, 'tmp');
    const alive = await Promise.all(
      victims.map(async (what) => {
        const args = [harness.folder, does, 'container'];
        const child = fork(join(import.meta.dirname, '../bwrap/starts-and-waits.js'), args, { stdio: 'inherit' });
        onTestFinished(() => void child.kill('SIGKILL'));
        const [said] = (await once(child, 'message')) as [{ reaper: number; root: string }];
        return { what, child, reaper: said.reaper, instance: instanceOf(said.root) };
      }),
    );
    await leftBehind(victims.length);
    for (const { what, child, reaper } of alive) {
      if (what !== 'ambit') process.kill(reaper, 'SIGKILL');
      const left = once(child, 'exit');
      child.kill('SIGKILL');
      await left;
    }
    const [noticed = '', swept = '', lost = ''] = alive.map(({ instance }) => instance);
    rmSync(join(tmp, lost), { recursive: true });
    expect(containersOf(swept)).toHaveLength(1);
    await sweepLeftovers(tmp);
    // Three processes are left: those of the one whose notes are lost.
    for (const instance of [noticed, swept]) await gone(instance, 3);
    expect(containersOf(lost)).toHaveLength(1);
    await createContainerRunner({ reaper: harness.reaper, tmpRoot: harness.root }).probe();
    await gone(lost);
  });

  test('is not run at all when a mounted path was replaced', async () => {
    const secret = join(harness.folder, 'secret');
    const repository = join(harness.folder, 'ws/.git');
    const bin = join(harness.folder, 'bin');
    for (const folder of [secret, repository, bin]) mkdirSync(folder, { recursive: true });
    const real = findProgramOnPath('podman', process.env['PATH']) as string;
    // Between our look and the engine's: as another server of the session could, were it fast.
    const swap = `[ -f ${bin}/armed ] && mv ${repository} ${repository}.old && ln -s ${secret} ${repository}`;
    writeFileSync(join(bin, 'podman'), `#!/bin/sh\n[ "$1" = init ] && ${swap}\nexec ${real} "$@"\n`, { mode: 0o755 });
    const { folder, root, reaper } = harness;
    const searchPath = () => `${bin}:${process.env['PATH']}`;
    const runner = createContainerRunner({ reaper, tmpRoot: root, searchPath });
    await runner.probe();
    writeFileSync(join(bin, 'armed'), '');
    const launch = harness.launch(['-e', `require("fs").writeFileSync("ran", "")`]);
    await expect(runner.start(launch)).rejects.toThrow(/moved or replaced while the sandbox was set up/);
    expect(readdirSync(join(folder, 'ws')).sort()).toEqual(['.git', '.git.old']);
    await gone(instanceOf(root));
  });
});

describe('without an engine that works', () => {
  afterEach(() => harness.stop());

  const refusalOf = async (script: string | undefined) => {
    let path = '';
    harness = await create(() => path);
    path = join(harness.folder, 'bin');
    mkdirSync(path);
    if (script !== undefined) writeFileSync(join(path, 'podman'), `#!/bin/sh\n${script}\n`, { mode: 0o755 });
    const refusal = await harness.runner.start(harness.launch(['-e', '0'])).catch((error: unknown) => error);
    expect(readdirSync(harness.root).filter((name) => name.startsWith('p'))).toEqual([]);
    return refusal as Error;
  };

  test('nothing starts when there is none, and the package is named', async () => {
    expect(await refusalOf(undefined)).toMatchObject({
      code: 'SANDBOX_UNAVAILABLE',
      message: expect.stringContaining('neither "podman" nor "docker"'),
      hint: expect.stringContaining('podman'),
    });
  });

  test('nothing starts when it fails, and the error shows no path of the machine', async () => {
    const refusal = await refusalOf(
      'echo "Error: crun: cgroups in hybrid mode not supported in /srv/secret" >&2; exit 1',
    );
    expect(refusal).toMatchObject({ code: 'SANDBOX_UNAVAILABLE', hint: expect.stringContaining('runc') });
    expect(refusal.message).toContain('hybrid mode');
    expect(refusal.message).not.toContain('/srv');
  });

  test('nothing starts in a fake podman that does nothing', async () => {
    expect(await refusalOf('exit 0')).toMatchObject({ code: 'SANDBOX_UNAVAILABLE' });
  });
});

function commandLines(): string[] {
  return readdirSync('/proc')
    .filter((entry) => /^\d+$/.test(entry))
    .map((pid) => textOf(`/proc/${pid}/cmdline`));
}
