import { readFileSync } from 'node:fs';
import { getPriority, setPriority } from 'node:os';
import { dirname } from 'node:path';
import { listProcesses, type ProcessEntry } from '../processes/process-table.ts';
import type { Exit } from '../runner.ts';
import {
  type Cgroups,
  findCgroupsV1,
  findCgroupsV2,
  type KernelRefusals,
  type OwnerCgroup,
  type ProcessCgroup,
  parseHierarchies,
} from './cgroups.ts';
import {
  createOwners,
  findDescendants,
  type LimitMember,
  type LimitOwner,
  type ResourceUsage,
} from './limit-owners.ts';
import type { EnforcedLimits, ResourceLimits } from './limits.ts';
import { canCountProcesses, hasRlimits, tooLargeFileCode, wrapInRlimits } from './rlimits.ts';
import { findSystemd, type Slice, type Systemd, type WrappedCommand } from './systemd.ts';

/** The exit code that a shell reports for a program that was killed. */
const killedExitCode = 128 + 9;

/** Enforces limits on processes by the best mechanism of this machine, which is found once. */
export interface Limiter {
  inForce(layout?: ProcessLayout): Promise<EnforcedLimits>;
  /**
   * Prepares the limits of one process before it starts. Processes of one owner share their limits; one without an
   * owner is alone. Throws when a limit that should be in force cannot be set.
   */
  bound(limits: ResourceLimits, tmpDir: string, owner: string | undefined, layout?: ProcessLayout): Promise<Bounds>;
}

/** The processes around a server when it is put under limits. */
interface ProcessLayout {
  /** The number of processes in its group that are not the server's own. */
  readonly helperCount: number;
  /** The number of helper processes that Ambit sees in the process table. */
  readonly visibleHelpers: number;
  /** Whether the admitted process is the server's own, and not only its parent. */
  readonly isServer: boolean;
  /** Whether Ambit starts the process, so that systemd can wrap it. */
  readonly isOurChild: boolean;
}

/** Bwrap starts its first process inside, which starts the server. */
const bwrapLayout: ProcessLayout = { helperCount: 2, visibleHelpers: 1, isServer: false, isOurChild: true };
/** An engine starts the first process inside a container. */
export const containerLayout: ProcessLayout = { helperCount: 0, visibleHelpers: 0, isServer: true, isOurChild: false };

export interface Bounds {
  /** Wraps the program inside the sandbox with its limits. */
  wrapInside(program: readonly [string, ...string[]]): [string, ...string[]];
  /** Wraps the command that is started outside with its limits. */
  wrapOutside(command: string, args: readonly string[]): WrappedCommand;
  /** Puts the process under its limits. It must have started nothing yet, and must not when this rejects. */
  admit(pid: number): Promise<void>;
  /** Returns the reason to end the process now, if there is one. */
  check(pid: number, processes: () => readonly ProcessEntry[]): string | undefined;
  /** The refusals of the kernel, read right after the exit; undefined where it does not count them. */
  refusals(): KernelRefusals | undefined;
  /** Releases the limits once the process is gone; may be called again. */
  release(): void;
}

export type LimitMechanism = 'cgroup v2' | 'cgroup v1' | 'systemd';

const lowPriority = 10;

interface AvailableMechanisms {
  readonly groups: Cgroups | undefined;
  readonly systemd: Systemd | undefined;
}

/** The group or slice of one owner; neither where only the watchdog checks. */
interface OwnerLimits {
  readonly group: OwnerCgroup | undefined;
  readonly slice: Slice | undefined;
}

export function createLimiter(keepers: readonly LimitMechanism[] = ['cgroup v2', 'cgroup v1', 'systemd']): Limiter {
  const owners = createOwners<OwnerLimits>();
  let found: Promise<AvailableMechanisms> | undefined;
  const mechanisms = () => {
    found ??= findMechanisms(keepers);
    return found;
  };

  function leaveOwner(name: string, member: LimitMember, { helperCount }: ProcessLayout): void {
    const { last, owner } = owners.leave(name, member) ?? {};
    if (owner === undefined) return;
    const { group, slice } = owner.keeper;
    if (last === true) {
      group?.remove();
      void slice?.remove();
      return;
    }
    try {
      group?.bound(owner.limits(), helperCount * owner.size);
    } catch {
      // The remaining processes use more than their limit together, so the wider limit stays.
    }
  }

  return {
    async inForce({ isOurChild } = bwrapLayout) {
      const { groups, systemd } = await mechanisms();
      return describeEnforcement(groups, isOurChild ? systemd : undefined, hasRlimits(), canCountProcesses());
    },
    async bound(limits, tmpDir, name = tmpDir, layout = bwrapLayout) {
      const { groups, systemd: there } = await mechanisms();
      const systemd = layout.isOurChild ? there : undefined;
      const { helperCount } = layout;
      let pid: number | undefined;
      const member: LimitMember = {
        limits,
        find: (table) => (pid === undefined ? [] : findServerProcesses(table, pid, layout)),
      };
      const tmpRoot = dirname(tmpDir);
      const owner = owners.join(name, member, () => ({
        group: groups?.create(tmpRoot),
        slice: systemd?.createSlice(tmpRoot),
      }));
      const { group, slice } = owner.keeper;
      try {
        group?.bound(owner.limits(), helperCount * owner.size);
        await slice?.bound(owner.limits(), helperCount * owner.size);
        const below = group?.add(tmpDir);
        return {
          ...createBounds(limits, owner, below, systemd, layout),
          async admit(admitted) {
            pid = admitted;
            await below?.join(admitted);
            if (layout.isOurChild && groups?.boundsCpu !== true && systemd === undefined) lowerPriority(admitted);
          },
          release: () => leaveOwner(name, member, layout),
        };
      } catch (error) {
        leaveOwner(name, member, layout);
        throw error;
      }
    },
  };
}

async function findMechanisms(keepers: readonly LimitMechanism[]): Promise<AvailableMechanisms> {
  const none = { groups: undefined, systemd: undefined };
  if (process.platform !== 'linux') return none;
  const read = (path: string) => readFileSync(path, 'latin1');
  const trees = parseHierarchies(read('/proc/self/cgroup'), read('/proc/self/mountinfo'));
  const groups =
    (keepers.includes('cgroup v2') ? findCgroupsV2(trees, listOwnProcessIds) : undefined) ??
    (keepers.includes('cgroup v1') ? findCgroupsV1(trees) : undefined);
  if (groups !== undefined) return { ...none, groups };
  return { ...none, systemd: keepers.includes('systemd') ? await findSystemd(process.env) : undefined };
}

function findServerProcesses(table: readonly ProcessEntry[], pid: number, { isServer }: ProcessLayout): ProcessEntry[] {
  const below = findDescendants(table, pid);
  return isServer ? [...table.filter((entry) => entry.pid === pid), ...below] : below;
}

function listOwnProcessIds(): ReadonlySet<number> {
  const below = findDescendants(
    listProcesses(() => false),
    process.pid,
  );
  return new Set([process.pid, ...below.map(({ pid }) => pid)]);
}

/** Describes how each limit of one owner is enforced for all its processes together. */
export function describeEnforcement(
  groups: Pick<Cgroups, 'version' | 'boundsCpu'> | undefined,
  systemd: Pick<Systemd, 'boundsTogether'> | undefined,
  rlimits: boolean,
  countsProcesses: boolean,
): EnforcedLimits {
  const kernel =
    groups !== undefined
      ? (`cgroup v${groups.version}` as const)
      : systemd?.boundsTogether === true
        ? 'systemd'
        : undefined;
  // The kernel limits each process, and Ambit their sum.
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

/** Ambit itself may already have a lower priority. */
function lowerPriority(pid: number): void {
  if (getPriority(pid) < lowPriority) setPriority(pid, lowPriority);
}

function createBounds(
  limits: ResourceLimits,
  owner: LimitOwner<OwnerLimits>,
  below: ProcessCgroup | undefined,
  systemd: Systemd | undefined,
  { helperCount, visibleHelpers: visibleHelperCount }: ProcessLayout,
): Omit<Bounds, 'admit' | 'release'> {
  const { slice } = owner.keeper;
  const byKernel = below !== undefined || systemd !== undefined;
  return {
    wrapInside: (program) =>
      hasRlimits() ? wrapInRlimits(program, limits, !byKernel && canCountProcesses()) : [...program],
    wrapOutside: (command, args) =>
      systemd?.wrap(command, args, limits, helperCount, slice) ?? { command, args, env: {} },
    check(_, processes) {
      // The kernel may have ended one of several processes: then the server is not whole any more.
      if (below !== undefined) return below.refusals().memory > 0 ? explainOutOfMemory(owner.limits()) : undefined;
      // The last process may have exited since the check began.
      if (slice !== undefined || owner.size === 0) return undefined;
      const { memoryMb, pids } = owner.usage(processes());
      return explainOverLimit({ memoryMb, pids: pids - visibleHelperCount * owner.size }, owner.limits());
    },
    refusals: () => below?.refusals(),
  };
}

export function explainOverLimit(used: ResourceUsage, { memoryMb, pids }: ResourceLimits): string | undefined {
  if (used.memoryMb > memoryMb) {
    return `it used ${Math.round(used.memoryMb)} MiB of memory; sandbox.memoryMb is ${memoryMb}`;
  }
  if (used.pids > pids) return `it had ${used.pids} processes and threads; sandbox.pids is ${pids}`;
  return undefined;
}

function explainOutOfMemory({ memoryMb }: ResourceLimits): string {
  return `it needed more memory than allowed; sandbox.memoryMb is ${memoryMb}`;
}

export function explainTimeUp({ wallSeconds }: ResourceLimits): string {
  return `it reached its maximum running time; sandbox.wallSeconds is ${wallSeconds}`;
}

/** Explains why a process exited by itself; undefined when no limit was the reason. */
export function explainExit(
  { code }: Exit,
  refused: KernelRefusals | undefined,
  limits: ResourceLimits,
): string | undefined {
  if ((refused?.memory ?? 0) > 0) return explainOutOfMemory(limits);
  if (refused === undefined && code === killedExitCode) {
    return `it was killed, probably because it ran out of memory; sandbox.memoryMb is ${limits.memoryMb}`;
  }
  if (code === tooLargeFileCode) return `it wrote a file larger than allowed; sandbox.fileMb is ${limits.fileMb}`;
  if (code !== 0 && (refused?.pids ?? 0) > 0) {
    return `it reached its limit of processes and threads; sandbox.pids is ${limits.pids}`;
  }
  return undefined;
}
