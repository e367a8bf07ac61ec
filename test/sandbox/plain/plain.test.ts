import { existsSync, realpathSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import type { EndTiming } from '../../../src/sandbox/runner.ts';
import { createHarness, type Harness, linesOf, readyPids } from '../runner-harness.ts';
import { isAlive, taggedProcesses } from '../tagged-processes.ts';

const linux = process.platform === 'linux';
let harness: Harness;
/** Longer than a process needs on any machine: whoever leaves by itself is never signalled. */
const longMs = 50_000;
/** For processes that do not leave by themselves: the next means is taken at once. */
const shortMs = 1;

beforeAll(async () => {
  harness = await createHarness({ closeMs: longMs, termMs: longMs });
});
afterAll(() => harness?.stop());

async function startReady(fixture: string, timing?: EndTiming) {
  const runner = timing === undefined ? harness.runner : harness.runnerWith(timing);
  const running = await runner.start(harness.launch(fixture));
  const next = linesOf(running);
  await readyPids(next);
  return { running, next };
}

describe('start', () => {
  it('gives the process what the launch says and nothing of our own environment', async () => {
    process.env['NODE_V8_COVERAGE'] = join(harness.tmpParent, 'coverage');
    try {
      const launch = harness.launch('prints-itself', 'a b', '$HOME', '`id`');
      const running = await harness.runner.start({ ...launch, env: { ...launch.env, EXTRA: 'x\ny' } });
      const printed = JSON.parse((await linesOf(running)()) ?? '');
      expect(printed).toEqual({
        env: { ...launch.env, EXTRA: 'x\ny' },
        cwd: realpathSync(harness.tmpParent),
        args: ['a b', '$HOME', '`id`'],
        pid: running.pid,
      });
      expect(await running.exited).toEqual({ code: 0, signal: null });
    } finally {
      delete process.env['NODE_V8_COVERAGE'];
    }
  });

  it('makes the private folder for nobody else', async () => {
    const launch = harness.launch('echoes-lines');
    const running = await harness.runner.start(launch);
    expect(statSync(launch.tmpDir).mode & 0o777).toBe(0o700);
    await running.end();
  });

  it('rejects when there is no such program, and leaves nothing behind', async () => {
    const launch = { ...harness.launch('echoes-lines'), command: 'no-such-program-here' };
    await expect(harness.runner.start(launch)).rejects.toMatchObject({ code: 'ENOENT', syscall: /spawn/ });
    expect(existsSync(launch.tmpDir)).toBe(false);
  });

  it('says so when it is the working directory that is missing', async () => {
    const launch = { ...harness.launch('echoes-lines'), cwd: join(harness.tmpParent, 'missing') };
    await expect(harness.runner.start(launch)).rejects.toThrow(/working directory does not exist: .*missing/);
    expect(existsSync(launch.tmpDir)).toBe(false);
  });

  it('rejects a program that may not be executed', async () => {
    const file = join(harness.tmpParent, 'not-executable');
    writeFileSync(file, 'x', { mode: 0o600 });
    const launch = { ...harness.launch('echoes-lines'), command: file };
    await expect(harness.runner.start(launch)).rejects.toMatchObject({ code: 'EACCES' });
    expect(existsSync(launch.tmpDir)).toBe(false);
  });

  it('rejects arguments and variables no process can be given', async () => {
    const launch = harness.launch('echoes-lines', 'a\0b');
    await expect(harness.runner.start(launch)).rejects.toThrow();
    expect(existsSync(launch.tmpDir)).toBe(false);
    const huge = { ...harness.launch('echoes-lines'), args: ['x'.repeat(200_000)] };
    await expect(harness.runner.start(huge)).rejects.toMatchObject({ code: 'E2BIG' });
    expect(existsSync(huge.tmpDir)).toBe(false);
  });

  it('rejects a TMPDIR that is not the private folder, and a folder outside the root', async () => {
    const launch = harness.launch('echoes-lines');
    await expect(harness.runner.start({ ...launch, env: {} })).rejects.toThrow(/TMPDIR/);
    const outside = join(harness.tmpParent, 'outside');
    const elsewhere = { ...launch, env: { ...launch.env, TMPDIR: outside }, tmpDir: outside };
    await expect(harness.runner.start(elsewhere)).rejects.toThrow(/directly inside/);
    expect(existsSync(outside)).toBe(false);
    if (linux) expect(taggedProcesses(outside)).toEqual([]);
  });
});

describe('end', () => {
  it('only closes stdin where that is enough', async () => {
    const { running, next } = await startReady('echoes-lines');
    running.stdin.write('hello\n');
    expect(await next()).toBe('hello');
    expect(await running.end()).toEqual({ code: 0, signal: null });
    expect(await next()).toBeUndefined();
  });

  it('sends TERM where closing stdin is not enough, and leaves time for it', async () => {
    const { running, next } = await startReady('leaves-on-term', { closeMs: shortMs, termMs: longMs });
    expect(await running.end()).toEqual({ code: 7, signal: null });
    expect(await next()).toBe('cleaned up');
  });

  it('leaves a server behind a wrapper its time, though the wrapper dies at once', async () => {
    const { running, next } = await startReady('wraps-a-server', { closeMs: shortMs, termMs: longMs });
    expect(await running.end()).toEqual({ code: null, signal: 'SIGTERM' });
    expect(await next()).toBe('cleaned up');
  });

  it('kills what ignores both', async () => {
    const { running } = await startReady('ignores-eof-and-term', { closeMs: shortMs, termMs: shortMs });
    expect(await running.end()).toEqual({ code: null, signal: 'SIGKILL' });
  });

  it('resolves to the same exit for every call', async () => {
    const { running } = await startReady('ignores-eof-and-term', { closeMs: shortMs, termMs: shortMs });
    const ends = await Promise.all([running.end(), running.end(), running.exited]);
    expect(new Set(ends).size).toBe(1);
    expect(await running.end()).toBe(ends[0]);
  });

  it('ends a process whose stdout nobody reads', async () => {
    const runner = harness.runnerWith({ closeMs: shortMs, termMs: longMs });
    const running = await runner.start(harness.launch('floods-stdout'));
    expect((await running.end()).signal).toMatch(/SIGTERM|SIGPIPE/);
  });

  it('lets a process live on without stdout until it is ended', async () => {
    const { running, next } = await startReady('closes-stdout');
    expect(await next()).toBeUndefined();
    expect(() => process.kill(running.pid ?? 0, 0)).not.toThrow();
    expect(await running.end()).toEqual({ code: 5, signal: null });
  });

  it('survives writing to a process that has left or never reads', async () => {
    const gone = await harness.runner.start(harness.launch('prints-itself'));
    gone.stdout.resume();
    for (let i = 0; i < 50; i++) gone.stdin.write('x'.repeat(100_000));
    await gone.exited;
    gone.stdin.write('more');
    const { running: deaf } = await startReady('never-reads-stdin', { closeMs: shortMs, termMs: longMs });
    deaf.stdin.write('x'.repeat(5_000_000));
    expect(await deaf.end()).toEqual({ code: null, signal: 'SIGTERM' });
  });
});

describe.skipIf(!linux)('what a process leaves behind', () => {
  it('is killed with its group when it leaves by itself, and its folder is removed', async () => {
    const launch = harness.launch('leaves-grandchild');
    const running = await harness.runner.start(launch);
    const [grandchild = 0] = await readyPids(linesOf(running));
    expect(await running.exited).toEqual({ code: 3, signal: null });
    await harness.reaper.release(running.pid ?? 0, launch.tmpDir);
    expect(isAlive(grandchild)).toBe(false);
    expect(existsSync(launch.tmpDir)).toBe(false);
  });

  it('does not delay the exit when it holds stdout open', async () => {
    const launch = harness.launch('double-forks', 'stay');
    const running = await harness.runner.start(launch);
    const [grandchild = 0] = await readyPids(linesOf(running));
    process.kill(harness.reaper.pid ?? 0, 'SIGSTOP');
    expect(await running.end()).toEqual({ code: 0, signal: null });
    expect(isAlive(grandchild)).toBe(true);
    process.kill(harness.reaper.pid ?? 0, 'SIGCONT');
    await harness.reaper.release(running.pid ?? 0, launch.tmpDir);
    expect(isAlive(grandchild)).toBe(false);
  });

  it.each([
    ['in a session of its own', 'double-forks'],
    ['in a group of its own, without its environment', 'changes-group'],
    ['on the move from session to session', 'keeps-hopping'],
  ])('is found %s, while Ambit goes on', async (_, kind) => {
    const { running: bystander, next: nextOfBystander } = await startReady('echoes-lines');
    const launch = harness.launch(kind, 'stay');
    const running = await harness.runner.start(launch);
    const pids = await readyPids(linesOf(running));
    onTestFinished(() => pids.filter(isAlive).forEach((pid) => void process.kill(pid, 'SIGKILL')));
    expect(pids.every(isAlive)).toBe(true);
    await running.end();
    await harness.reaper.release(running.pid ?? 0, launch.tmpDir);
    expect(pids.filter(isAlive)).toEqual([]);
    expect(taggedProcesses(launch.tmpDir)).toEqual([]);
    expect(existsSync(launch.tmpDir)).toBe(false);

    bystander.stdin.write('still here\n');
    expect(await nextOfBystander()).toBe('still here');
    expect(await bystander.end()).toEqual({ code: 0, signal: null });
  });
});
