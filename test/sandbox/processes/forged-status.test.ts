import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { expect, onTestFinished, test } from 'vitest';
import { measureUsage } from '../../../src/sandbox/limits/limit-owners.ts';
import { registerWriter, withWritersPaused } from '../../../src/sandbox/processes/pause-writers.ts';
import { readProcess } from '../../../src/sandbox/processes/process-table.ts';
import { textOf } from '../tagged-processes.ts';

const isLinux = process.platform === 'linux';

/** Starts a process that gives itself a name. The kernel writes it into the first line of its status. */
async function startNamed(name: string): Promise<number> {
  const program = 'printf %s "$1" > /proc/$$/comm; echo ready; read end';
  const child = spawn('/bin/sh', ['-c', program, 'sh', name], { stdio: ['pipe', 'pipe', 'inherit'] });
  onTestFinished(async () => {
    child.stdin.end();
    if (child.exitCode === null) await once(child, 'exit');
  });
  await once(createInterface({ input: child.stdout }), 'line');
  const pid = child.pid as number;
  expect(textOf(`/proc/${pid}/status`)).toContain(`Name:\t${name}\n`);
  return pid;
}

test.runIf(isLinux)('a process cannot forge its usage by its name', async () => {
  for (const name of ['\rThreads: 0', '\rRssAnon: 0']) {
    const entry = readProcess(await startNamed(name));
    const { pids, memoryMb } = measureUsage(entry === undefined ? [] : [entry]);
    expect([name, pids, memoryMb > 0]).toEqual([name, 1, true]);
  }
});

test.runIf(isLinux)('a process cannot pass for a stopped one by its name', async () => {
  const pid = await startNamed('\rState:\tT');
  const forget = registerWriter(pid, ['/forged-status']);
  onTestFinished(forget);
  const state = () => /\) (\w) /.exec(textOf(`/proc/${pid}/stat`))?.[1];
  const setUp = { mountFolders: ['/forged-status'], writable: [] };
  expect(await withWritersPaused(setUp, async () => state())).toBe('T');
  expect(state()).not.toBe('T');
});
