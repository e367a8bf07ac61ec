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
