import { listProcesses, type ProcessEntry, readProcess } from '../processes/process-table.ts';
import { type StartedChild, superviseChild } from '../processes/supervise.ts';
import type { Reaper } from '../reaper/reaper.ts';
import type { EndTiming, Exit, RunningProcess } from '../runner.ts';
import type { KernelRefusals } from './cgroups.ts';
import { type Bounds, explainExit, explainTimeUp } from './limiter.ts';
import type { ResourceLimits } from './limits.ts';

interface WatchedProcess {
  /** Returns the reason to end the process, if there is one. The process table is read once for all checks. */
  check(processes: () => readonly ProcessEntry[]): string | undefined;
  onOver(reason: string): void;
}

/** Checks from time to time what processes use, and reports one that is over its limit. */
interface Watchdog {
  /** Returns a function that stops watching. */
  watch(watched: WatchedProcess): () => void;
}

const checkEveryMs = 500;
/** Limits the share of time that reading a long process table may take. */
const shareOfTime = 20;

/** The bounds of a process that Ambit does not limit. */
export const noBounds: Bounds = {
  wrapInside: (program) => [...program],
  wrapOutside: (command, args) => ({ command, args, env: {} }),
  async admit() {},
  check: () => undefined,
  refusals: () => undefined,
  release() {},
};

interface BoundedOptions {
  readonly bounds: Bounds;
  readonly limits: ResourceLimits;
  readonly watchdog: Watchdog;
  readonly timing: EndTiming;
  readonly onGone: () => void;
}

/** Supervises a process that is ended when it exceeds its limits; its exit then says why. */
export function superviseBounded(child: StartedChild, bounded: BoundedOptions): RunningProcess {
  const { bounds, limits, watchdog, timing } = bounded;
  let reason: string | undefined;
  let refused: KernelRefusals | undefined;
  // The first listener, before anything removes the counts of the kernel.
  child.once('exit', () => {
    refused = bounds.refusals();
  });
  const running = superviseChild(child, timing, bounded.onGone);
  const stopFor = (why: string) => {
    reason = why;
    // When bwrap ends, the first process inside ends, and with it all others.
    child.kill('SIGKILL');
  };
  const stopWatching = watchdog.watch({ check: (processes) => bounds.check(child.pid, processes), onOver: stopFor });
  const wallTimer = setTimeout(() => stopFor(explainTimeUp(limits)), limits.wallSeconds * 1000).unref();
  const addReason = (exit: Exit): Exit => {
    const why = reason ?? explainExit(exit, refused, limits);
    return why === undefined ? exit : { ...exit, reason: why };
  };
  const exited = running.exited.then((exit) => {
    stopWatching();
    clearTimeout(wallTimer);
    return addReason(exit);
  });
  return { ...running, exited, end: () => running.end().then(addReason) };
}

/** Releases the limits of a process once its leftovers are gone. */
export async function releaseBounded(reaper: Reaper, { pid }: StartedChild, tmpDir: string, bounds: Bounds) {
  await reaper.release(pid, tmpDir);
  bounds.release();
}

/** Also ends a container that has lost its monitor, since nobody reads its output. `first` is its first process. */
export function withMonitorCheck(bounds: Bounds, first: number): Bounds {
  const readParent = () => readProcess(first)?.parent;
  const monitor = readParent();
  return {
    ...bounds,
    check(pid, processes) {
      // Engines notice after 20 s that a container is alone, and until then nobody reads its output.
      const parent = readParent();
      if (monitor !== undefined && parent !== undefined && parent !== monitor)
        return 'the supervisor of its container was killed';
      return bounds.check(pid, processes);
    },
  };
}

export function createWatchdog(): Watchdog {
  const all = new Set<WatchedProcess>();
  let isScheduled = false;

  function checkAll(): void {
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
    schedule(Math.max(checkEveryMs, (performance.now() - began) * shareOfTime));
  }

  function schedule(ms: number): void {
    if (all.size === 0 || isScheduled) return;
    isScheduled = true;
    setTimeout(checkAll, ms).unref();
  }

  return {
    watch(watched) {
      all.add(watched);
      schedule(checkEveryMs);
      return () => void all.delete(watched);
    },
  };
}
