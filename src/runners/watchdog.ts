import { listProcesses } from './process-table.ts';
import { descendantsOf, type Usage, usageOf } from './usage.ts';

export interface Bound {
  /** What stands above everything that is counted. */
  readonly pid: number;
  /** Of the processes below, how many are not the server's own. */
  readonly besides: number;
  readonly limit: Usage;
  onOver(reason: string): void;
}

/** Looks from time to time at what processes use, and says so when one is over its limit. */
export interface Watchdog {
  /** Returns what stops it. */
  watch(bound: Bound): () => void;
}

export interface WatchdogOptions {
  readonly everyMs?: number;
}

/** Looking through a long process table must not become all that Ambit does. */
const shareOfTime = 20;

export function createWatchdog({ everyMs = 500 }: WatchdogOptions = {}): Watchdog {
  const bounds = new Set<Bound>();
  let isScheduled = false;

  function look(): void {
    const began = performance.now();
    const processes = listProcesses(() => false);
    for (const bound of [...bounds]) {
      const { memoryMb, pids } = usageOf(descendantsOf(processes, bound.pid));
      const reason = overLimit({ memoryMb, pids: pids - bound.besides }, bound.limit);
      if (reason === undefined) continue;
      bounds.delete(bound);
      bound.onOver(reason);
    }
    isScheduled = false;
    schedule(Math.max(everyMs, (performance.now() - began) * shareOfTime));
  }

  function schedule(ms: number): void {
    if (bounds.size === 0 || isScheduled) return;
    isScheduled = true;
    setTimeout(look, ms).unref();
  }

  return {
    watch(bound) {
      bounds.add(bound);
      schedule(everyMs);
      return () => void bounds.delete(bound);
    },
  };
}

function overLimit(used: Usage, limit: Usage): string | undefined {
  if (used.memoryMb > limit.memoryMb) {
    return `it used ${Math.round(used.memoryMb)} MiB of memory, and sandbox.memoryMb is ${limit.memoryMb}`;
  }
  if (used.pids > limit.pids) {
    return `it had ${used.pids} processes and threads, and sandbox.pids is ${limit.pids}`;
  }
  return undefined;
}
