import { installCommand, type Machine } from '../common/machine.ts';

/** The most that the processes of one owner, and all they start, may take together. */
export interface Limits {
  readonly memoryMb: number;
  /** Processes and threads, as the kernel counts what it calls a pid. */
  readonly pids: number;
  /** In processors: 0.5 is half of one. */
  readonly cpus: number;
  /** Of any one file. */
  readonly fileMb: number;
  /** Of any one process. */
  readonly openFiles: number;
  readonly wallSeconds: number;
}

/**
 * Who keeps the processes of one owner within a limit: the kernel (`cgroup`, `systemd`, `rlimit`), Ambit,
 * which looks from time to time (`watchdog`, `timer`), or nobody. `priority` is no limit: it only lets others go first.
 * With `each` the kernel keeps each process within the limit, and Ambit looks at their sum; the sum of processor time
 * nobody keeps.
 */
export type Means =
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

/** What is in force on this machine, by limit. */
export type InForce = Readonly<Record<keyof Limits, Means>>;

/** What would bound this better here; undefined where the kernel does it, or nothing can be done. */
export function remedyForLimit(limit: keyof Limits, means: Means, machine: Machine): string | undefined {
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
