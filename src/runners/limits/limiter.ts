import { readFileSync } from 'node:fs';
import { getPriority, setPriority } from 'node:os';
import { listProcesses, type ProcessEntry } from '../process-table.ts';
import { descendantsOf, usageOf } from '../usage.ts';
import { type Group, type Groups, groupsOfVersion1, groupsOfVersion2 } from './cgroup-groups.ts';
import { hierarchiesOf } from './cgroup-hierarchies.ts';
import type { Refusals } from './cgroup-settings.ts';
import type { InForce, Limits } from './limits.ts';
import { outOfMemory, overLimit } from './over-limit.ts';
import { countsProcesses, hasRlimits, limited } from './rlimits.ts';
import { findSystemd, type Systemd, type Wrapped } from './systemd.ts';

/** Keeps processes within limits by the best means this machine has, which are found out once. */
export interface Limiter {
  inForce(): Promise<InForce>;
  /** For one process, before it is there. Throws when a limit that is said to be in force cannot be set. */
  bound(limits: Limits, tmpDir: string): Promise<Bounds>;
}

export interface Bounds {
  /** The program inside the sandbox, with what bounds it there. */
  inside(program: readonly [string, ...string[]]): [string, ...string[]];
  /** What is started outside, with what bounds that. */
  outside(command: string, args: readonly string[]): Wrapped;
  /** Takes the process in, which must have started nothing yet; when this rejects, it must not. */
  admit(pid: number): Promise<void>;
  /** Why it has to end now, if it has to. */
  check(pid: number, processes: () => readonly ProcessEntry[]): string | undefined;
  /** Undefined where the kernel keeps no count; asked as soon as the process has left. */
  refusals(): Refusals | undefined;
}

export type Keeper = 'cgroup v2' | 'cgroup v1' | 'systemd';

/** bwrap itself, and its first process inside. */
const besides = 2;
const besidesInside = 1;
const behindOthers = 10;

interface Means {
  readonly groups: Groups | undefined;
  readonly systemd: Systemd | undefined;
}

export function createLimiter(keepers: readonly Keeper[] = ['cgroup v2', 'cgroup v1', 'systemd']): Limiter {
  let found: Promise<Means> | undefined;
  const means = () => {
    found ??= findMeans(keepers);
    return found;
  };
  return {
    async inForce() {
      const { groups, systemd } = await means();
      return inForceBy(groups, systemd !== undefined, hasRlimits(), countsProcesses());
    },
    async bound(limits, tmpDir) {
      const { groups, systemd } = await means();
      return boundsOf(limits, groups?.create(limits, besides, tmpDir), groups?.boundsCpu ?? false, systemd);
    },
  };
}

async function findMeans(keepers: readonly Keeper[]): Promise<Means> {
  const none = { groups: undefined, systemd: undefined };
  if (process.platform !== 'linux') return none;
  const read = (path: string) => readFileSync(path, 'latin1');
  const trees = hierarchiesOf(read('/proc/self/cgroup'), read('/proc/self/mountinfo'));
  const groups =
    (keepers.includes('cgroup v2') ? groupsOfVersion2(trees, ourProcesses) : undefined) ??
    (keepers.includes('cgroup v1') ? groupsOfVersion1(trees) : undefined);
  if (groups !== undefined) return { ...none, groups };
  return { ...none, systemd: keepers.includes('systemd') ? await findSystemd(process.env) : undefined };
}

function ourProcesses(): ReadonlySet<number> {
  const below = descendantsOf(
    listProcesses(() => false),
    process.pid,
  );
  return new Set([process.pid, ...below.map(({ pid }) => pid)]);
}

export function inForceBy(
  groups: Pick<Groups, 'version' | 'boundsCpu'> | undefined,
  systemd: boolean,
  rlimits: boolean,
  countsProcesses: boolean,
): InForce {
  const kernel = groups !== undefined ? (`cgroup v${groups.version}` as const) : systemd ? 'systemd' : undefined;
  const cpus = systemd || groups?.boundsCpu === true ? kernel : undefined;
  return {
    memoryMb: kernel ?? 'watchdog',
    pids: kernel ?? (rlimits && countsProcesses ? 'rlimit' : 'watchdog'),
    cpus: cpus ?? 'priority',
    fileMb: rlimits ? 'rlimit' : 'none',
    openFiles: rlimits ? 'rlimit' : 'none',
    wallSeconds: 'timer',
  };
}

/** Ambit may itself stand further back already. */
function stepBack(pid: number): void {
  if (getPriority(pid) < behindOthers) setPriority(pid, behindOthers);
}

function boundsOf(limits: Limits, group: Group | undefined, boundsCpu: boolean, systemd: Systemd | undefined): Bounds {
  const byKernel = group !== undefined || systemd !== undefined;
  return {
    inside: (program) => (hasRlimits() ? limited(program, limits, !byKernel && countsProcesses()) : [...program]),
    outside: (command, args) => systemd?.wrap(command, args, limits, besides) ?? { command, args, env: {} },
    async admit(pid) {
      await group?.join(pid);
      if (!boundsCpu && systemd === undefined) stepBack(pid);
    },
    check(pid, processes) {
      // Of several processes the kernel may have ended one: what is left is not the server any more.
      if (group !== undefined) return group.refusals().memory > 0 ? outOfMemory(limits) : undefined;
      if (systemd !== undefined) return undefined;
      const { memoryMb, pids } = usageOf(descendantsOf(processes(), pid));
      return overLimit({ memoryMb, pids: pids - besidesInside }, limits);
    },
    refusals: () => group?.refusals(),
  };
}
