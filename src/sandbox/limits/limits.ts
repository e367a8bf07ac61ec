import { installCommand, type Machine } from '../common/machine.ts';

/** The resources that the processes of one owner, with all they start, may use together. */
export interface ResourceLimits {
  readonly memoryMb: number;
  /** Processes and threads, which the kernel counts as pids. */
  readonly pids: number;
  /** The number of processors: 0.5 is half of one. */
  readonly cpus: number;
  /** The size of any one file. */
  readonly fileMb: number;
  /** The limit of any one process. */
  readonly openFiles: number;
  readonly wallSeconds: number;
}

/** Limits by which is found out whether a mechanism works here. */
export const trialLimits: ResourceLimits = { memoryMb: 64, pids: 16, cpus: 1, fileMb: 1, openFiles: 1, wallSeconds: 1 };

/**
 * The mechanism that enforces a limit for the processes of one owner: the kernel (`cgroup`, `systemd`, `rlimit`),
 * Ambit, which checks from time to time (`watchdog`, `timer`), or none. `priority` is no limit: it only lets others go
 * first. With `each` the kernel limits each process, and Ambit checks their sum; nothing limits their sum of processor
 * time.
 */
export type LimitEnforcer =
  | 'cgroup v2'
  | 'cgroup v1'
  | 'systemd'
  | 'systemd each'
  | 'container each'
  | 'rlimit'
  | 'rlimit each'
  | 'watchdog'
  | 'timer'
  | 'priority'
  | 'none';

/** The mechanism of each limit on this machine. */
export type EnforcedLimits = Readonly<Record<keyof ResourceLimits, LimitEnforcer>>;

/** Suggests how to enforce a limit better here; undefined where the kernel does it, or nothing helps. */
export function suggestLimitRemedy(
  limit: keyof ResourceLimits,
  means: LimitEnforcer,
  machine: Machine,
): string | undefined {
  if (means === 'none') return installCommand(machine, 'util-linux');
  if (means !== 'watchdog' && means !== 'priority' && means !== 'rlimit each') return undefined;
  if (machine.platform !== 'linux') return undefined;
  if (machine.isContainer) {
    return 'docker run --cgroupns=private -v /sys/fs/cgroup:/sys/fs/cgroup:rw …, with Ambit as the only program inside';
  }
  if (machine.cgroups === 2 && machine.hasSystemd) {
    return machine.isRoot
      ? 'Run Ambit as a service with "Delegate=yes"'
      : 'Log in with a systemd user session: sudo loginctl enable-linger "$USER"';
  }
  if (machine.cgroups === 1 && !machine.isRoot) {
    return 'Boot with systemd.unified_cgroup_hierarchy=1, or run Ambit as root: version 1 of control groups is for root only';
  }
  return `Mount control groups with the controller "${limit === 'cpus' ? 'cpu' : limit === 'pids' ? 'pids' : 'memory'}"`;
}
