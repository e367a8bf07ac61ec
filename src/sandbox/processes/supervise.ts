import { type ChildProcessWithoutNullStreams, type SpawnOptions, spawn } from 'node:child_process';
import { once } from 'node:events';
import { lstat, mkdir } from 'node:fs/promises';
import type { Readable } from 'node:stream';
import { setTimeout as delay } from 'node:timers/promises';
import type { KernelRefusals } from '../limits/cgroups.ts';
import { type Bounds, explainExit, explainTimeUp } from '../limits/limiter.ts';
import type { ResourceLimits } from '../limits/limits.ts';
import type { Reaper } from '../reaper/reaper.ts';
import type { EndTiming, Exit, ProcessLaunch, RunningProcess } from '../runner.ts';
import { listProcesses, type ProcessEntry, readProcess } from './process-table.ts';

export type StartedChild = ChildProcessWithoutNullStreams & { readonly pid: number };

interface SpawnRequest extends Pick<ProcessLaunch, 'command' | 'args' | 'env' | 'cwd' | 'tmpDir'> {
  readonly stdio: SpawnOptions['stdio'];
}

/** The time for which stdio may stay open after the exit: another process may hold it. */
const stdioGraceMs = 200;
/** The time for which a slow reader may take output after the exit. */
const stdioLimitMs = 5000;
/** The kernel can keep even a killed process for a while; this limits the wait. */
const killLimitMs = 2000;
const pollMs = 10;

/**
 * Turns a started child, leader of its own process group, into a running process. `onGone` is called once, when the
 * child has exited and its group has been killed.
 */
export function superviseChild(child: StartedChild, timing: EndTiming, onGone: () => void): RunningProcess {
  const { pid, stdin, stdout, stderr } = child;
  let ending: Promise<Exit> | undefined;
  let hasLeft = false;
  let settle: (exit: Exit) => void = () => {};
  const exited = new Promise<Exit>((accept) => {
    settle = accept;
  });
  let leave: () => void = () => {};
  const left = new Promise<void>((accept) => {
    leave = accept;
  });

  for (const emitter of [child, stdin, stdout, stderr]) emitter.on('error', () => {});

  child.once('exit', (code, signal) => {
    hasLeft = true;
    const exit = { code, signal };
    const grace = setTimeout(() => settle(exit), stdioGraceMs);
    const limit = setTimeout(() => {
      stdout.destroy();
      stderr.destroy();
    }, stdioLimitMs).unref();
    child.once('close', () => {
      clearTimeout(grace);
      clearTimeout(limit);
      settle(exit);
    });
    leave();
    if (ending !== undefined) return;
    signalGroup(pid, 'SIGKILL');
    onGone();
  });

  function waitForExit(ms: number): Promise<boolean> {
    return new Promise((accept) => {
      const timer = setTimeout(() => accept(hasLeft), ms);
      void left.then(() => {
        clearTimeout(timer);
        accept(true);
      });
    });
  }

  /** A wrapper such as npx may exit at once while the server behind it still needs its time. */
  async function waitForGroupExit(ms: number): Promise<boolean> {
    const deadline = performance.now() + ms;
    await waitForExit(ms);
    while (signalGroup(pid, 0)) {
      if (performance.now() >= deadline) return false;
      await delay(pollMs);
    }
    return true;
  }

  async function endProcessTree(): Promise<Exit> {
    stdin.end();
    await waitForExit(timing.closeMs);
    const wasThere = signalGroup(pid, 'SIGTERM');
    if (wasThere && !(await waitForGroupExit(timing.termMs))) signalGroup(pid, 'SIGKILL');
    if (!(await waitForExit(killLimitMs))) settle({ code: null, signal: 'SIGKILL' });
    onGone();
    return exited;
  }

  return {
    pid,
    stdin,
    stdout,
    stderr,
    exited,
    end() {
      if (ending === undefined && hasLeft) return exited;
      ending ??= endProcessTree();
      return ending;
    },
  };
}

/** False when the group is empty. */
function signalGroup(pid: number, signal: NodeJS.Signals | 0): boolean {
  try {
    process.kill(-pid, signal);
    return true;
  } catch {
    return false;
  }
}

/** Starts a process in a session and group of its own, and tells the reaper before anything else happens. */
export async function spawnTracked(wanted: SpawnRequest, reaper: Reaper): Promise<StartedChild> {
  const child = spawn(wanted.command, wanted.args, {
    cwd: wanted.cwd,
    // Set to undefined, since Node would add the coverage variable by itself.
    env: { NODE_V8_COVERAGE: undefined, ...wanted.env },
    detached: true,
    shell: false,
    stdio: wanted.stdio,
  });
  if (child.pid === undefined) {
    const [error] = (await once(child, 'error')) as [Error];
    throw error;
  }
  try {
    reaper.watch(child.pid, wanted.tmpDir);
  } catch (error) {
    const left = once(child, 'exit');
    process.kill(-child.pid, 'SIGKILL');
    await left;
    throw error;
  }
  return child as unknown as StartedChild;
}

/** Makes a private folder. An existing link or file is refused. */
export async function ensurePrivateFolder(path: string): Promise<void> {
  try {
    await mkdir(path, { mode: 0o700 });
  } catch (error) {
    const existing = await lstat(path).catch(() => undefined);
    if (!existing?.isDirectory()) throw error;
  }
}

/** Reads an output of a process to its end. Returns undefined if it was cut off or too large; then `stop` is called. */
export async function readBounded(stream: Readable, maxBytes: number, stop: () => void): Promise<Buffer | undefined> {
  const pieces: Buffer[] = [];
  let bytes = 0;
  try {
    for await (const piece of stream) {
      bytes += (piece as Buffer).length;
      if (bytes > maxBytes) {
        stop();
        return undefined;
      }
      pieces.push(piece as Buffer);
    }
  } catch {
    return undefined;
  }
  return Buffer.concat(pieces);
}

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
