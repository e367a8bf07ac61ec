import { readFileSync } from 'node:fs';
import { getPriority, setPriority } from 'node:os';
import { dirname } from 'node:path';
import { listProcesses, type ProcessEntry } from '../processes/process-table.ts';
import type { Exit } from '../runner.ts';
import { type Groups, groupsOfVersion1, groupsOfVersion2, hierarchiesOf } from './find-cgroups.ts';
import { createOwners, descendantsOf, type Member, type Owner, type Usage } from './limit-owners.ts';
import type { InForce, Limits } from './limits.ts';
import type { Below, Group, Refusals } from './owner-cgroup.ts';
import { countsProcesses, hasRlimits, limited, tooLargeFile } from './rlimits.ts';
import { findSystemd, type Slice, type Systemd, type Wrapped } from './systemd.ts';

/** What a shell says of a program that was killed outright. */
const killed = 128 + 9;

/** Keeps processes within limits by the best means this machine has, which are found out once. */
export interface Limiter {
  inForce(shape?: Shape): Promise<InForce>;
  /**
   * For one process, before it is there. Processes of one owner share their limits; one without an owner is alone.
   * Throws when a limit that is said to be in force cannot be set.
   */
  bound(limits: Limits, tmpDir: string, owner: string | undefined, shape?: Shape): Promise<Bounds>;
}

/** What is taken in when a process is. */
export interface Shape {
  /** Processes in its group that are not the server's own. */
  readonly besides: number;
  /** Of these, how many Ambit finds when it looks. */
  readonly besidesSeen: number;
  /** Whether the process that is taken in is the server's own, and not only what it starts. */
  readonly isServer: boolean;
  /** Whether Ambit starts it, so that systemd can be put in front. */
  readonly isStarted: boolean;
}

/** bwrap, which starts its first process inside, which starts the server. */
const bwrapShape: Shape = { besides: 2, besidesSeen: 1, isServer: false, isStarted: true };
/** The first process inside a container, which an engine starts. */
export const containerShape: Shape = { besides: 0, besidesSeen: 0, isServer: true, isStarted: false };

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
  /** Nothing of the process is left; may be said again. */
  release(): void;
}

export type Keeper = 'cgroup v2' | 'cgroup v1' | 'systemd';

const behindOthers = 10;

interface Means {
  readonly groups: Groups | undefined;
  readonly systemd: Systemd | undefined;
}

/** What keeps the processes of one owner together; neither where only Ambit looks. */
interface Kept {
  readonly group: Group | undefined;
  readonly slice: Slice | undefined;
}

export function createLimiter(keepers: readonly Keeper[] = ['cgroup v2', 'cgroup v1', 'systemd']): Limiter {
  const owners = createOwners<Kept>();
  let found: Promise<Means> | undefined;
  const means = () => {
    found ??= findMeans(keepers);
    return found;
  };

  function leave(name: string, member: Member, { besides }: Shape): void {
    const { last, owner } = owners.leave(name, member) ?? {};
    if (owner === undefined) return;
    const { group, slice } = owner.keeper;
    if (last === true) {
      group?.remove();
      void slice?.remove();
      return;
    }
    try {
      group?.bound(owner.limits(), besides * owner.size);
    } catch {
      // What is there already uses more than the others may together: their wider limit holds on.
    }
  }

  return {
    async inForce({ isStarted } = bwrapShape) {
      const { groups, systemd } = await means();
      return inForceBy(groups, isStarted ? systemd : undefined, hasRlimits(), countsProcesses());
    },
    async bound(limits, tmpDir, name = tmpDir, shape = bwrapShape) {
      const { groups, systemd: there } = await means();
      const systemd = shape.isStarted ? there : undefined;
      const { besides } = shape;
      let pid: number | undefined;
      const member: Member = { limits, find: (table) => (pid === undefined ? [] : partsOf(table, pid, shape)) };
      const tmpRoot = dirname(tmpDir);
      const owner = owners.join(name, member, () => ({
        group: groups?.create(tmpRoot),
        slice: systemd?.createSlice(tmpRoot),
      }));
      const { group, slice } = owner.keeper;
      try {
        group?.bound(owner.limits(), besides * owner.size);
        await slice?.bound(owner.limits(), besides * owner.size);
        const below = group?.add(tmpDir);
        return {
          ...boundsOf(limits, owner, below, systemd, shape),
          async admit(admitted) {
            pid = admitted;
            await below?.join(admitted);
            if (shape.isStarted && groups?.boundsCpu !== true && systemd === undefined) stepBack(admitted);
          },
          release: () => leave(name, member, shape),
        };
      } catch (error) {
        leave(name, member, shape);
        throw error;
      }
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

function partsOf(table: readonly ProcessEntry[], pid: number, { isServer }: Shape): ProcessEntry[] {
  const below = descendantsOf(table, pid);
  return isServer ? [...table.filter((entry) => entry.pid === pid), ...below] : below;
}

function ourProcesses(): ReadonlySet<number> {
  const below = descendantsOf(
    listProcesses(() => false),
    process.pid,
  );
  return new Set([process.pid, ...below.map(({ pid }) => pid)]);
}

/** Who keeps the processes of one owner within each limit, together. */
export function inForceBy(
  groups: Pick<Groups, 'version' | 'boundsCpu'> | undefined,
  systemd: Pick<Systemd, 'boundsTogether'> | undefined,
  rlimits: boolean,
  countsProcesses: boolean,
): InForce {
  const kernel =
    groups !== undefined
      ? (`cgroup v${groups.version}` as const)
      : systemd?.boundsTogether === true
        ? 'systemd'
        : undefined;
  // Each process by itself, and all of them by Ambit.
  const each = systemd !== undefined ? 'systemd each' : undefined;
  const eachPids = rlimits && countsProcesses ? 'rlimit each' : 'watchdog';
  const cpus = groups === undefined || groups.boundsCpu ? kernel : undefined;
  return {
    memoryMb: kernel ?? each ?? 'watchdog',
    pids: kernel ?? each ?? eachPids,
    cpus: cpus ?? each ?? 'priority',
    fileMb: rlimits ? 'rlimit' : 'none',
    openFiles: rlimits ? 'rlimit' : 'none',
    wallSeconds: 'timer',
  };
}

/** Ambit may itself stand further back already. */
function stepBack(pid: number): void {
  if (getPriority(pid) < behindOthers) setPriority(pid, behindOthers);
}

function boundsOf(
  limits: Limits,
  owner: Owner<Kept>,
  below: Below | undefined,
  systemd: Systemd | undefined,
  { besides, besidesSeen }: Shape,
): Omit<Bounds, 'admit' | 'release'> {
  const { slice } = owner.keeper;
  const byKernel = below !== undefined || systemd !== undefined;
  return {
    inside: (program) => (hasRlimits() ? limited(program, limits, !byKernel && countsProcesses()) : [...program]),
    outside: (command, args) => systemd?.wrap(command, args, limits, besides, slice) ?? { command, args, env: {} },
    check(_, processes) {
      // Of several processes the kernel may have ended one: what is left is not the server any more.
      if (below !== undefined) return below.refusals().memory > 0 ? outOfMemory(owner.limits()) : undefined;
      // The last process may have left since the look began: then there is nothing to bound.
      if (slice !== undefined || owner.size === 0) return undefined;
      const { memoryMb, pids } = owner.usage(processes());
      return overLimit({ memoryMb, pids: pids - besidesSeen * owner.size }, owner.limits());
    },
    refusals: () => below?.refusals(),
  };
}

/** Why a process that used this much has to end. */
export function overLimit(used: Usage, { memoryMb, pids }: Limits): string | undefined {
  if (used.memoryMb > memoryMb) {
    return `it used ${Math.round(used.memoryMb)} MiB of memory, and sandbox.memoryMb is ${memoryMb}`;
  }
  if (used.pids > pids) return `it had ${used.pids} processes and threads, and sandbox.pids is ${pids}`;
  return undefined;
}

function outOfMemory({ memoryMb }: Limits): string {
  return `it wanted more memory than it was given, and sandbox.memoryMb is ${memoryMb}`;
}

export function tooOld({ wallSeconds }: Limits): string {
  return `it ran as long as it may, and sandbox.wallSeconds is ${wallSeconds}`;
}

/** Why a process has left that nobody told to; undefined where no limit had a part in it. */
export function whyItLeft({ code }: Exit, refused: Refusals | undefined, limits: Limits): string | undefined {
  if ((refused?.memory ?? 0) > 0) return outOfMemory(limits);
  if (refused === undefined && code === killed) {
    return `it was killed, most likely for more memory than there was, and sandbox.memoryMb is ${limits.memoryMb}`;
  }
  if (code === tooLargeFile) return `it wrote a larger file than it may, and sandbox.fileMb is ${limits.fileMb}`;
  if (code !== 0 && (refused?.pids ?? 0) > 0) {
    return `it was refused further processes and threads, and sandbox.pids is ${limits.pids}`;
  }
  return undefined;
}
