import { type ChildProcessWithoutNullStreams, type SpawnOptions, spawn } from 'node:child_process';
import { once } from 'node:events';
import type { Warden } from '../reaper/warden.ts';

export type StartedChild = ChildProcessWithoutNullStreams & { readonly pid: number };

export interface WatchedSpawn {
  readonly command: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly cwd: string;
  readonly stdio: SpawnOptions['stdio'];
  /** What the warden knows the process by. */
  readonly tmpDir: string;
}

/** Starts a process in a session and group of its own, and tells the warden before anything else happens. */
export async function spawnWatched(wanted: WatchedSpawn, warden: Warden): Promise<StartedChild> {
  const child = spawn(wanted.command, wanted.args, {
    cwd: wanted.cwd,
    // Named as undefined, the coverage variable is not handed down by Node on its own.
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
    warden.watch(child.pid, wanted.tmpDir);
  } catch (error) {
    const left = once(child, 'exit');
    process.kill(-child.pid, 'SIGKILL');
    await left;
    throw error;
  }
  return child as unknown as StartedChild;
}
