import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { readLines } from '../../src/protocol/lines/read-lines.ts';
import { baseEnvironment } from '../../src/sandbox/common/base-environment.ts';
import { createTmpRoot } from '../../src/sandbox/common/sweep-leftovers.ts';
import { createPlainRunner } from '../../src/sandbox/plain/plain.ts';
import { createReaper, type Reaper, type ReaperOptions } from '../../src/sandbox/reaper/reaper.ts';
import type { EndTiming, ProcessLaunch, Runner, RunningProcess } from '../../src/sandbox/runner.ts';
import { killTagged } from './tagged-processes.ts';

export interface Harness {
  readonly tmpParent: string;
  readonly root: string;
  readonly reaper: Reaper;
  readonly runner: Runner;
  /** A runner that waits so long before it signals, and so long again before it kills. */
  runnerWith(timing: EndTiming): Runner;
  /** What starts one of the fixtures; each call has a private folder of its own. */
  launch(fixture: string, ...args: string[]): ProcessLaunch;
  stop(): Promise<void>;
}

export const fixturePath = (name: string): string => fileURLToPath(new URL(`fixtures/${name}.js`, import.meta.url));

export async function createHarness(timing?: EndTiming, options?: Partial<ReaperOptions>): Promise<Harness> {
  const tmpParent = mkdtempSync(join(tmpdir(), 'ambit-runners-'));
  const root = await createTmpRoot(tmpParent);
  const reaper = createReaper({ tmpRoot: root, ...options });
  const runner = createPlainRunner(timing === undefined ? { reaper } : { reaper, timing });
  let launches = 0;
  return {
    tmpParent,
    root,
    reaper,
    runner,
    runnerWith: (other) => createPlainRunner({ reaper, timing: other }),
    launch(fixture, ...args) {
      launches += 1;
      const tmpDir = join(root, `p${launches}`);
      const env = baseEnvironment(process.env, tmpDir, {});
      return { command: process.execPath, args: [fixturePath(fixture), ...args], env, cwd: tmpParent, tmpDir };
    },
    async stop() {
      await reaper.close();
      if (process.platform === 'linux') killTagged(tmpParent);
      rmSync(tmpParent, { recursive: true, force: true });
    },
  };
}

/** The lines a process writes, to be awaited one by one; ends with undefined. */
export function linesOf(running: RunningProcess): () => Promise<string | undefined> {
  const lines: (string | undefined)[] = [];
  const takers: ((line: string | undefined) => void)[] = [];
  const put = (line: string | undefined) => {
    const taker = takers.shift();
    if (taker === undefined) lines.push(line);
    else taker(line);
  };
  readLines(running.stdout, {
    maxBytes: 1_000_000,
    onLine: (line) => put(line.toString()),
    onTooLong() {},
    onRunaway() {},
    onEnd: () => put(undefined),
  });
  return () => {
    if (lines.length > 0) return Promise.resolve(lines.shift());
    return new Promise((resolve) => {
      takers.push(resolve);
    });
  };
}

/** The pids that follow "ready" on the first line. */
export async function readyPids(next: () => Promise<string | undefined>): Promise<number[]> {
  const line = await next();
  if (line === undefined || !line.startsWith('ready')) throw new Error(`not ready: ${line}`);
  return line.split(' ').slice(1).map(Number);
}
