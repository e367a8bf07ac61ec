import { listProcesses, type ProcessEntry } from './process-table.ts';

export interface Watched {
  /** Why it has to end, if it has to; the process table is read once for all who ask for it. */
  check(processes: () => readonly ProcessEntry[]): string | undefined;
  onOver(reason: string): void;
}

/** Looks from time to time at what processes use, and says so when one is over its limit. */
export interface Watchdog {
  /** Returns what stops it. */
  watch(watched: Watched): () => void;
}

export interface WatchdogOptions {
  readonly everyMs?: number;
}

/** Looking through a long process table must not become all that Ambit does. */
const shareOfTime = 20;

export function createWatchdog({ everyMs = 500 }: WatchdogOptions = {}): Watchdog {
  const all = new Set<Watched>();
  let isScheduled = false;

  function look(): void {
    const began = performance.now();
    let table: readonly ProcessEntry[] | undefined;
    const processes = () => {
      table ??= listProcesses(() => false);
      return table;
    };
    for (const watched of [...all]) {
      const reason = watched.check(processes);
      if (reason === undefined) continue;
      all.delete(watched);
      watched.onOver(reason);
    }
    isScheduled = false;
    schedule(Math.max(everyMs, (performance.now() - began) * shareOfTime));
  }

  function schedule(ms: number): void {
    if (all.size === 0 || isScheduled) return;
    isScheduled = true;
    setTimeout(look, ms).unref();
  }

  return {
    watch(watched) {
      all.add(watched);
      schedule(everyMs);
      return () => void all.delete(watched);
    },
  };
}
