import { measureUsage } from '../limits/limit-owners.ts';
import { claimRelatives, indexRelatives } from './process-family.ts';
import { listProcesses, type ProcessEntry } from './process-table.ts';

/** The resources that a process uses together with everything it has started. */
export interface FamilyUsage {
  /** Private memory and swap. Pages of files, which many processes share, do not count. */
  readonly memoryBytes: number;
  readonly processes: number;
}

/** Limits the time of one measurement: it stops all other work. */
const maxMs = 200;

/**
 * Measures the families of these processes, with one look at the process table. A family is missing in the result if its
 * first process is gone, without /proc, and when the time is up.
 */
export function measureFamilies(roots: readonly number[]): ReadonlyMap<number, FamilyUsage> {
  const usage = new Map<number, FamilyUsage>();
  if (roots.length === 0) return usage;
  const deadline = performance.now() + maxMs;
  const table = listProcesses(() => false).filter(({ dead }) => !dead);
  const byPid = new Map(table.map((entry) => [entry.pid, entry]));
  const related = indexRelatives(table.filter(({ pid }) => pid > 1));
  for (const pid of roots) {
    const root = byPid.get(pid);
    if (root === undefined || pid <= 1) continue;
    if (performance.now() > deadline) break;
    const family = new Set<ProcessEntry>();
    claimRelatives(related, root, family);
    const { memoryMb } = measureUsage([...family]);
    usage.set(pid, { memoryBytes: Math.round(memoryMb * 2 ** 20), processes: family.size });
  }
  return usage;
}
