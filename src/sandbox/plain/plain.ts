import { stat } from 'node:fs/promises';
import { removeFolder } from '../../lib/fs/remove-folder.ts';
import { makePrivateFolder } from '../common/private-folder.ts';
import { startNpxApart } from '../packages/npx-apart.ts';
import { type StartedChild, spawnWatched } from '../processes/spawn-watched.ts';
import { supervise } from '../processes/supervise.ts';
import type { Warden } from '../reaper/warden.ts';
import type { EndTiming, Launch, Runner } from '../runner.ts';

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
      if (launch.confinement !== undefined) throw new Error('What is confined is never started without a sandbox.');
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

async function spawnChild(launch: Launch, warden: Warden): Promise<StartedChild> {
  launch.lastLook?.();
  const { command, args, env, cwd, tmpDir } = startNpxApart(launch);
  try {
    return await spawnWatched({ command, args, env, cwd, tmpDir, stdio: 'pipe' }, warden);
  } catch (error) {
    throw await explain(error as Error, launch);
  }
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
