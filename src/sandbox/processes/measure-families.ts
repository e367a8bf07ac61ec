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
/** A measurement is used again for so long: many readers must not stop all other work many times. */
const freshMs = 1000;

interface Measured {
  /** Undefined if the time was up. */
  readonly usage: FamilyUsage | undefined;
  readonly at: number;
}

const measured = new Map<number, Measured>();

/**
 * Measures the families of these processes, with one look at the process table. A family is missing in the result if its
 * first process is gone, without /proc, and when the time is up.
 */
export function measureFamilies(roots: readonly number[]): ReadonlyMap<number, FamilyUsage> {
  const now = performance.now();
  for (const [pid, { at }] of measured) if (now - at >= freshMs) measured.delete(pid);
  const wanted = roots.filter((pid) => pid > 1 && !measured.has(pid));
  if (wanted.length > 0) measureNow(wanted);
  return new Map(
    roots.flatMap((pid) => {
      const usage = measured.get(pid)?.usage;
      return usage === undefined ? [] : [[pid, usage] as const];
    }),
  );
}

function measureNow(roots: readonly number[]): void {
  const deadline = performance.now() + maxMs;
  const table = listProcesses(() => false).filter(({ dead }) => !dead);
  const byPid = new Map(table.map((entry) => [entry.pid, entry]));
  const related = indexRelatives(table.filter(({ pid }) => pid > 1));
  for (const pid of roots) {
    const root = byPid.get(pid);
    const isTimeUp = performance.now() > deadline;
    const usage = root === undefined || isTimeUp ? undefined : measureFamily(related, root);
    measured.set(pid, { usage, at: performance.now() });
  }
}

function measureFamily(related: ReturnType<typeof indexRelatives>, root: ProcessEntry): FamilyUsage {
  const family = new Set<ProcessEntry>();
  claimRelatives(related, root, family);
  const { memoryMb } = measureUsage([...family]);
  return { memoryBytes: Math.round(memoryMb * 2 ** 20), processes: family.size };
}
