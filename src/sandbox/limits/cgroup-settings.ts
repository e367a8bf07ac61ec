import type { Limits } from './limits.ts';

export type Controller = 'memory' | 'pids' | 'cpu';

/** A file of a group and what is written there. */
export interface Setting {
  readonly file: string;
  readonly value: string;
  /** Where the kernel does not have it, the others hold all the same. */
  readonly optional?: true;
}

const periodUs = 100_000;

/** `besides` is how many processes are in the group that are not the server's own. */
export function settingsFor(
  version: 1 | 2,
  controller: Controller,
  { memoryMb, pids, cpus }: Limits,
  besides: number,
): Setting[] {
  const bytes = String(memoryMb * 1024 * 1024);
  const quota = String(Math.round(cpus * periodUs));
  if (controller === 'pids') return [{ file: 'pids.max', value: String(pids + besides) }];
  if (controller === 'cpu') {
    return version === 2
      ? [{ file: 'cpu.max', value: `${quota} ${periodUs}` }]
      : [
          { file: 'cpu.cfs_period_us', value: String(periodUs) },
          { file: 'cpu.cfs_quota_us', value: quota },
        ];
  }
  return version === 2
    ? [
        { file: 'memory.max', value: bytes },
        { file: 'memory.swap.max', value: '0', optional: true },
        // The kernel would pick one process; a server with half of its processes is no server.
        { file: 'memory.oom.group', value: '1', optional: true },
      ]
    : [
        { file: 'memory.limit_in_bytes', value: bytes },
        { file: 'memory.memsw.limit_in_bytes', value: bytes, optional: true },
      ];
}

/** How often the kernel had to refuse. */
export interface Refusals {
  /** Processes killed for want of memory. */
  readonly memory: number;
  /** Processes and threads that were not started. */
  readonly pids: number;
}

export const refusalFiles = {
  memory: { 1: 'memory.oom_control', 2: 'memory.events' },
  pids: { 1: 'pids.events', 2: 'pids.events' },
} as const;

export function countIn(text: string, name: string): number {
  return Number(new RegExp(`^${name} (\\d+)$`, 'm').exec(text)?.[1] ?? 0);
}
