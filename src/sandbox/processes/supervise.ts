import { type ChildProcessWithoutNullStreams, type SpawnOptions, spawn } from 'node:child_process';
import { once } from 'node:events';
import { lstat, mkdir } from 'node:fs/promises';
import type { Readable } from 'node:stream';
import { setTimeout as delay } from 'node:timers/promises';
import type { Reaper } from '../reaper/reaper.ts';
import type { EndTiming, Exit, ProcessLaunch, RunningProcess } from '../runner.ts';

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
