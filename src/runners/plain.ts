import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
import { once } from 'node:events';
import { lstat, mkdir, stat } from 'node:fs/promises';
import { removeFolder } from './remove-folder.ts';
import type { EndTiming, Launch, Runner } from './runner.ts';
import { supervise } from './supervise.ts';
import type { Warden } from './warden.ts';

export interface PlainRunnerOptions {
  readonly warden: Warden;
  readonly timing?: EndTiming;
}

/** Starts a process with the user's own rights: its own session and group, no shell, only the environment given. */
export function createPlainRunner(options: PlainRunnerOptions): Runner {
  const { warden, timing = { closeMs: 1000, termMs: 1000 } } = options;
  return {
    name: 'plain',
    async start(launch) {
      if (launch.env['TMPDIR'] !== launch.tmpDir)
        throw new Error('TMPDIR must name the private folder of the process.');
      // There must be no moment in which a process has no warden.
      await warden.start();
      await makePrivateFolder(launch.tmpDir);
      try {
        const child = await spawnChild(launch, warden);
        return supervise(child, timing, () => void warden.release(child.pid, launch.tmpDir));
      } catch (error) {
        await removeFolder(launch.tmpDir);
        throw error;
      }
    },
  };
}

type StartedChild = ChildProcessWithoutNullStreams & { readonly pid: number };

async function spawnChild(launch: Launch, warden: Warden): Promise<StartedChild> {
  launch.lastLook?.();
  const child = spawn(launch.command, launch.args, {
    cwd: launch.cwd,
    // Named as undefined, the coverage variable is not handed down by Node on its own.
    env: { NODE_V8_COVERAGE: undefined, ...launch.env },
    detached: true,
    shell: false,
    stdio: 'pipe',
  });
  if (child.pid === undefined) {
    const [error] = (await once(child, 'error')) as [Error];
    throw await explain(error, launch);
  }
  try {
    warden.watch(child.pid, launch.tmpDir);
  } catch (error) {
    const left = once(child, 'exit');
    process.kill(-child.pid, 'SIGKILL');
    await left;
    throw error;
  }
  return child as StartedChild;
}

/** The kernel says ENOENT both for the program and for its working directory. */
async function explain(error: Error, launch: Launch): Promise<Error> {
  const { code } = error as NodeJS.ErrnoException;
  if (code !== 'ENOENT' && code !== 'ENOTDIR') return error;
  const cwd = await stat(launch.cwd).catch(() => undefined);
  if (cwd?.isDirectory()) return error;
  const clearer = new Error(`The working directory does not exist: ${launch.cwd}`, { cause: error });
  return Object.assign(clearer, { code });
}

async function makePrivateFolder(path: string): Promise<void> {
  try {
    await mkdir(path, { mode: 0o700 });
  } catch (error) {
    const existing = await lstat(path).catch(() => undefined);
    if (!existing?.isDirectory()) throw error;
  }
}
