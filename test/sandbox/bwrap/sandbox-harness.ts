import { mkdirSync, mkdtempSync, readdirSync, readFileSync, realpathSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { expect } from 'vitest';
import { type BwrapRunnerOptions, createBwrapRunner } from '../../../src/sandbox/bwrap/bwrap.ts';
import { createTmpRoot } from '../../../src/sandbox/common/sweep-leftovers.ts';
import { createLimiter, type LimitMechanism } from '../../../src/sandbox/limits/limiter.ts';
import type { ResourceLimits } from '../../../src/sandbox/limits/limits.ts';
import { createReaper, type Reaper } from '../../../src/sandbox/reaper/reaper.ts';
import type { ProcessLaunch, RunningProcess, SandboxRunner } from '../../../src/sandbox/runner.ts';
import { linesOf } from '../runner-harness.ts';
import { textOf, until } from '../tagged-processes.ts';

export const ordinaryLimits: ResourceLimits = {
  memoryMb: 512,
  pids: 64,
  cpus: 1,
  fileMb: 64,
  openFiles: 256,
  wallSeconds: 3600,
};
export const does = join(import.meta.dirname, 'does.js');
/** The ways of this machine to keep limits: by its best means, and by a look from time to time. */
export const ways: readonly (readonly [string, readonly LimitMechanism[] | undefined])[] = [
  ['the best means of this machine', undefined],
  ['a look from time to time', []],
];

export interface SandboxHarness {
  readonly folder: string;
  readonly root: string;
  readonly reaper: Reaper;
  readonly runner: SandboxRunner;
  launch(args: readonly string[], limits?: Partial<ResourceLimits>): ProcessLaunch;
  /** Starts one of the deeds of `does.js`, and waits until it is ready. */
  started(
    deed: readonly string[],
    limits?: Partial<ResourceLimits>,
    more?: Partial<ProcessLaunch>,
  ): Promise<{ readonly running: RunningProcess; readonly line: () => Promise<string | undefined> }>;
  /** Waits until none of its processes is left. */
  allGone(limitMs?: number): Promise<number>;
  /** Waits until nothing of its processes is left, control groups included. */
  nothingLeft(limitMs?: number): Promise<void>;
  /** The control groups of this instance, in whatever tree; asked of the kernel, apart from the code. */
  groups(): string[];
  stop(): Promise<void>;
}

export async function createSandboxHarness(
  searchPath?: () => string | undefined,
  keepers?: readonly LimitMechanism[],
  create: (options: BwrapRunnerOptions) => SandboxRunner = createBwrapRunner,
): Promise<SandboxHarness> {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), 'ambit-sandbox-')));
  const root = await createTmpRoot(join(folder, 'tmp'));
  const reaper = createReaper({ tmpRoot: root });
  const timing = { closeMs: 100, termMs: 1000 };
  const runner = create({
    reaper,
    tmpRoot: root,
    timing,
    limiter: createLimiter(keepers),
    ...(searchPath === undefined ? {} : { searchPath }),
  });
  const home = join(folder, 'ws');
  mkdirSync(home);
  const instances = new Set([basename(root).replace('instance-', '')]);
  let launches = 0;
  const launch = (args: readonly string[], limits: Partial<ResourceLimits> = {}): ProcessLaunch => ({
    command: process.execPath,
    args,
    env: {},
    cwd: home,
    tmpDir: join(root, `p${++launches}`),
    confinement: {
      home: { source: home, target: home },
      readable: [],
      writable: [],
      hidden: [],
      limits: { ...ordinaryLimits, ...limits },
    },
  });
  const groups = () => {
    for (const name of readdirSync(join(folder, 'tmp'))) instances.add(name.replace('instance-', ''));
    return groupsThere().filter((path) => [...instances].some((name) => path.includes(`/ambit-${name}-`)));
  };
  const empty = (left: () => readonly unknown[], limitMs: number) =>
    until(
      () => left().length === 0,
      limitMs,
      () => `left: ${left()}`,
    );
  const allGone = (limitMs = 5000) => empty(() => processesIn(folder), limitMs);
  return {
    folder,
    root,
    reaper,
    runner,
    launch,
    groups,
    allGone,
    async started(deed, limits, more) {
      const running = await runner.start({ ...launch([does, ...deed], limits), ...more });
      const line = linesOf(running);
      expect(await line()).toBe('ready');
      return { running, line };
    },
    async nothingLeft(limitMs = 5000) {
      await reaper.settled();
      // The kernel takes its time with a sandbox full of processes, and the reaper may hear of an end a moment after we do.
      await allGone(limitMs);
      await empty(groups, limitMs);
    },
    async stop() {
      await reaper.close();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** Every process that runs inside a sandbox with this working directory; asked of the kernel, apart from the code. */
export function processesIn(folder: string): number[] {
  return (
    readdirSync('/proc')
      .filter((name) => /^\d+$/.test(name))
      .map(Number)
      // Outside, a mount for each folder is nothing anybody has.
      .filter((pid) => textOf(`/proc/${pid}/mountinfo`).includes(folder))
  );
}

/** Every control group near the top of every tree. */
export function groupsThere(): string[] {
  const trees = readFileSync('/proc/self/mountinfo', 'latin1')
    .split('\n')
    .filter((line) => / - cgroup2? /.test(line));
  return trees.flatMap((line) => foldersBelow(line.split(' ')[4] ?? '', 4));
}

function foldersBelow(folder: string, depth: number): string[] {
  if (depth === 0) return [];
  try {
    const inside = readdirSync(folder, { withFileTypes: true }).filter((entry) => entry.isDirectory());
    return inside.flatMap(({ name }) => [join(folder, name), ...foldersBelow(join(folder, name), depth - 1)]);
  } catch {
    return [];
  }
}
