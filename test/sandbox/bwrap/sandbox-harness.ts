import { mkdirSync, mkdtempSync, readdirSync, readFileSync, realpathSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { type BwrapRunnerOptions, createBwrapRunner } from '../../../src/sandbox/bwrap/bwrap.ts';
import { createTmpRoot } from '../../../src/sandbox/common/sweep-leftovers.ts';
import { createLimiter, type LimitMechanism } from '../../../src/sandbox/limits/limiter.ts';
import type { ResourceLimits } from '../../../src/sandbox/limits/limits.ts';
import { createReaper, type Reaper } from '../../../src/sandbox/reaper/reaper.ts';
import type { ProcessLaunch, SandboxRunner } from '../../../src/sandbox/runner.ts';

export const ordinaryLimits: ResourceLimits = {
  memoryMb: 512,
  pids: 64,
  cpus: 1,
  fileMb: 64,
  openFiles: 256,
  wallSeconds: 3600,
};
export const does = join(import.meta.dirname, 'does.js');

export interface SandboxHarness {
  readonly folder: string;
  readonly root: string;
  readonly reaper: Reaper;
  readonly runner: SandboxRunner;
  launch(args: readonly string[], limits?: Partial<ResourceLimits>): ProcessLaunch;
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
  return {
    folder,
    root,
    reaper,
    runner,
    launch: (args, limits = {}) => ({
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
    }),
    groups: () => {
      for (const name of readdirSync(join(folder, 'tmp'))) instances.add(name.replace('instance-', ''));
      return groupsThere().filter((path) => [...instances].some((name) => path.includes(`/ambit-${name}-`)));
    },
    async stop() {
      await reaper.close();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** Every process that runs inside a sandbox with this working directory; asked of the kernel, apart from the code. */
export function processesIn(folder: string): number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .filter((pid) => mountsOf(pid).includes(folder));
}

function mountsOf(pid: number): string {
  try {
    // Outside, a mount for each folder is nothing anybody has.
    return readFileSync(`/proc/${pid}/mountinfo`, 'latin1');
  } catch {
    return '';
  }
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
