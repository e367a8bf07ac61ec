import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createReaper } from '../../../src/sandbox/reaper/reaper.ts';
import { counts } from '../../proof.ts';
import { createHarness, type Harness, linesOf, readyPids } from '../runner-harness.ts';
import { isAlive, until } from '../tagged-processes.ts';

const linux = process.platform === 'linux';
const program = fileURLToPath(new URL('../../../dist/sandbox/reaper/reaper-process.js', import.meta.url));

describe('the reaper of a running Ambit', () => {
  let harness: Harness;
  beforeEach(async () => {
    harness = await createHarness({ closeMs: 300, termMs: 300 });
  });
  afterEach(() => harness.stop());

  it('is started by the first process only', async () => {
    expect(harness.reaper.pid).toBeUndefined();
    const running = await harness.runner.start(harness.launch('echoes-lines'));
    expect(harness.reaper.pid).toBeGreaterThan(1);
    await running.end();
  });

  it('has left when it is closed, and the folder of the instance with it', async () => {
    const running = await harness.runner.start(harness.launch('echoes-lines'));
    await running.end();
    const pid = harness.reaper.pid ?? 0;
    await Promise.all([harness.reaper.close(), harness.reaper.close()]);
    expect(() => process.kill(pid, 0)).toThrow(/ESRCH/);
    expect(existsSync(harness.root)).toBe(false);
    await expect(harness.runner.start(harness.launch('echoes-lines'))).rejects.toThrow(/closed/);
  });

  it('removes the folder of the instance even if it was never needed', async () => {
    await harness.reaper.close();
    expect(existsSync(harness.root)).toBe(false);
  });

  it('does not remove a root that is not marked as this instance', async () => {
    writeFileSync(join(harness.root, 'owner'), '1 1\n');
    const running = await harness.runner.start(harness.launch('echoes-lines'));
    await running.end();
    await harness.reaper.close();
    expect(existsSync(join(harness.root, 'owner'))).toBe(true);
  });

  it('ends what is still running when it is closed', async () => {
    const running = await harness.runner.start(harness.launch('ignores-eof-and-term'));
    await readyPids(linesOf(running));
    await harness.reaper.close();
    expect(await running.exited).toEqual({ code: null, signal: 'SIGKILL' });
  });

  it('ignores signals', async () => {
    await harness.reaper.start();
    const pid = harness.reaper.pid ?? 0;
    for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP', 'SIGUSR1'] as const) process.kill(pid, signal);
    const running = await harness.runner.start(harness.launch('echoes-lines'));
    await running.end();
    await harness.reaper.release(running.pid ?? 0, join(harness.root, 'p1'));
    expect(harness.reaper.pid).toBe(pid);
  });

  it('removes links in a private folder without following them', async () => {
    const precious = join(harness.tmpParent, 'precious');
    mkdirSync(precious);
    writeFileSync(join(precious, 'file'), 'x');
    const launch = harness.launch('echoes-lines');
    const running = await harness.runner.start(launch);
    symlinkSync(precious, join(launch.tmpDir, 'link'));
    await running.end();
    await harness.reaper.release(running.pid ?? 0, launch.tmpDir);
    expect(existsSync(launch.tmpDir)).toBe(false);
    expect(existsSync(join(precious, 'file'))).toBe(true);
  });

  it.each(['../up', 'a/b', 'owner', '..', ''])('refuses to watch a process with the folder "%s"', (name) => {
    expect(() => harness.reaper.watch(process.pid, `${harness.root}/${name}`)).toThrow(/directly inside/);
  });

  it.each([0, 1, -5, 1.5, Number.NaN])('refuses to watch the process %s', (pid) => {
    expect(() => harness.reaper.watch(pid, join(harness.root, 'p1'))).toThrow(/Not a process/);
  });

  it.skipIf(!linux)('sweeps many processes that leave together', async () => {
    const many = counts(5, 12);
    const launches = Array.from({ length: many }, () => harness.launch('double-forks', 'stay'));
    const started = await Promise.all(launches.map((launch) => harness.runner.start(launch)));
    const pids = (await Promise.all(started.map((running) => readyPids(linesOf(running))))).flat();
    await Promise.all(started.map((running) => running.end()));
    await Promise.all(started.map(({ pid = 0 }, index) => harness.reaper.release(pid, launches[index]?.tmpDir ?? '')));
    expect(pids).toHaveLength(many);
    expect(pids.filter(isAlive)).toEqual([]);
    expect(launches.filter((launch) => existsSync(launch.tmpDir))).toEqual([]);
  });

  it.skipIf(!linux)('is started again when it dies, and knows all processes', async () => {
    const launch = harness.launch('double-forks', 'stay');
    const running = await harness.runner.start(launch);
    const [grandchild = 0] = await readyPids(linesOf(running));
    const first = harness.reaper.pid ?? 0;
    process.kill(first, 'SIGKILL');
    await until(
      () => ![undefined, first].includes(harness.reaper.pid),
      5000,
      () => 'a second reaper',
    );
    // Killed once more, with a release on its way that it never gets to.
    const second = harness.reaper.pid ?? 0;
    process.kill(second, 'SIGSTOP');
    await running.end();
    const swept = harness.reaper.release(running.pid ?? 0, launch.tmpDir);
    process.kill(second, 'SIGKILL');
    await swept;
    expect(isAlive(grandchild)).toBe(false);
    expect(existsSync(launch.tmpDir)).toBe(false);
  });
});

describe('where there is no process table', () => {
  it('still ends whole groups and removes the folders', async () => {
    const harness = await createHarness({ closeMs: 300, termMs: 300 }, { processTable: 'groups' });
    const first = harness.launch('echoes-lines');
    const ended = await harness.runner.start(first);
    await ended.end();
    await harness.reaper.release(ended.pid ?? 0, first.tmpDir);
    expect(existsSync(first.tmpDir)).toBe(false);
    const running = await harness.runner.start(harness.launch('ignores-eof-and-term'));
    await readyPids(linesOf(running));
    await harness.reaper.close();
    expect((await running.exited).signal).toBe('SIGKILL');
    expect(existsSync(harness.root)).toBe(false);
    await harness.stop();
  });
});

it.skipIf(!linux)('does not hold on to descriptors Ambit was given', async () => {
  const root = mkdtempSync(join(tmpdir(), 'ambit-given-'));
  const args = [process.execPath, program, root, String(process.pid), '1', 'proc'];
  const reaper = spawn('bash', ['--norc', '-c', 'exec 40</dev/null; exec "$@"', 'bash', ...args], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  const left = once(reaper, 'exit');
  expect(String(await once(reaper.stdout, 'data'))).toBe('ready\n');
  expect(existsSync(`/proc/${reaper.pid}/fd/0`)).toBe(true);
  expect(existsSync(`/proc/${reaper.pid}/fd/40`)).toBe(false);
  reaper.stdin.end('close\n');
  expect(await left).toEqual([0, null]);
  rmSync(root, { recursive: true });
});

describe.skipIf(!linux)('a pid that now belongs to somebody else', () => {
  let root: string;
  let innocent: ChildProcess;
  let orphan: number;

  /** As the kernel tells it, read apart from the code under test. */
  const startOf = (pid: number) =>
    Number(readFileSync(`/proc/${pid}/stat`, 'latin1').split(') ').pop()?.split(' ')[19]);

  /** Runs the reaper's program on these lines to its end. */
  async function runReaper(...lines: string[]): Promise<void> {
    const args = [program, root, String(process.pid), String(startOf(process.pid)), 'proc'];
    const reaper = spawn(process.execPath, args, { detached: true, stdio: ['pipe', 'ignore', 'inherit'], env: {} });
    reaper.stdin.end(lines.map((line) => `${line}\n`).join(''));
    expect(await once(reaper, 'exit')).toEqual([0, null]);
  }

  beforeEach(async () => {
    root = mkdtempSync(join(tmpdir(), 'ambit-stale-'));
    // Its TMPDIR only looks as if it lay in the root.
    innocent = spawn('sh', ['-c', 'sleep 1000 & echo $!; wait'], {
      detached: true,
      stdio: ['ignore', 'pipe', 'ignore'],
      env: { PATH: process.env['PATH'], TMPDIR: `${root}-not/p1` },
    });
    const [text] = (await once(innocent.stdout!, 'data')) as [Buffer];
    orphan = Number(text.toString());
  });
  afterEach(() => {
    if (isAlive(orphan)) process.kill(-(innocent.pid ?? 0), 'SIGKILL');
    rmSync(root, { recursive: true, force: true });
  });

  it('is not signalled when Ambit dies, nor when a process is released', async () => {
    const pid = innocent.pid ?? 0;
    const earlier = startOf(pid) - 1;
    await runReaper(`watch ${pid} ${earlier} p1`, `watch ${orphan} 0 p2`);
    await runReaper(`release ${pid} ${earlier} p1`, `release ${orphan} 0 p2`, 'close');
    expect([isAlive(pid), isAlive(orphan)]).toEqual([true, true]);
  });

  it('is killed where the start time is right, so that the test above means something', async () => {
    await runReaper(`watch ${innocent.pid} ${startOf(innocent.pid ?? 0)} p1`);
    expect([isAlive(innocent.pid ?? 0), isAlive(orphan)]).toEqual([false, false]);
  });

  it('is not signalled by lines that are not exactly commands', async () => {
    const pid = innocent.pid ?? 0;
    const start = startOf(pid);
    mkdirSync(join(root, 'keep'));
    await runReaper(
      `watch ${pid} ${start} ../keep`,
      `watch ${pid} ${start} ..`,
      `watch ${pid} ${start} owner`,
      `watch  ${pid} ${start} p1`,
      `watch -${pid} ${start} p1`,
      `watch ${pid}e0 ${start} p1`,
      `watch ${pid} ${start}`,
      `watch ${pid} ${start} p1 p2`,
      `WATCH ${pid} ${start} p1`,
      `kill ${pid}`,
      `release 1 ${startOf(1)} keep`,
      'release 0 0 keep',
      'x'.repeat(100_000),
    );
    expect([isAlive(pid), isAlive(orphan), existsSync(join(root, 'keep'))]).toEqual([true, true, true]);
  });

  it('is identified by its start time in the commands to the reaper', async () => {
    const reaper = createReaper({ tmpRoot: root });
    await reaper.start();
    reaper.watch(innocent.pid ?? 0, join(root, 'p1'));
    await reaper.close();
    expect(isAlive(innocent.pid ?? 0)).toBe(false);
  });
});
