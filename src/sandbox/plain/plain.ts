import { writeFileSync } from 'node:fs';
import { stat } from 'node:fs/promises';
import { delimiter, isAbsolute, join } from 'node:path';
import { removeFolder } from '../../lib/fs/remove-folder.ts';
import { withoutForeignFolders, withoutProjectFolders } from '../common/find-program.ts';
import { isInside } from '../common/visibility-filter.ts';
import { dropIncompleteCache, isInstallingNpx, type NpxSetup } from '../packages/direct-packages.ts';
import { ensurePrivateFolder, type StartedChild, spawnTracked, superviseChild } from '../processes/supervise.ts';
import type { Reaper } from '../reaper/reaper.ts';
import type { ProcessLaunch, Runner, RunnerOptions } from '../runner.ts';

type NpxStart = Pick<ProcessLaunch, 'command' | 'args' | 'env' | 'cwd' | 'tmpDir' | 'npx'>;

/** A folder that only root writes. */
const neutralFolder = '/';

/** Starts a process with the user's own rights: its own session and group, no shell, only the environment given. */
export function createPlainRunner(options: Omit<RunnerOptions, 'tmpRoot'>): Runner {
  const { reaper, timing = { closeMs: 1000, termMs: 1000 } } = options;
  return {
    name: 'plain',
    async start(launch) {
      if (launch.confinement !== undefined) throw new Error('A sandboxed process cannot be started without a sandbox.');
      if (launch.env['TMPDIR'] !== launch.tmpDir) throw new Error('TMPDIR must be the private folder of the process.');
      // A process must never run without the reaper.
      await reaper.start();
      await ensurePrivateFolder(launch.tmpDir);
      try {
        const child = await spawnChild(launch, reaper);
        return superviseChild(child, timing, () => {
          void reaper.release(child.pid, launch.tmpDir);
          if (launch.npx !== undefined) void dropIncompleteCache(launch.npx);
        });
      } catch (error) {
        if (launch.npx !== undefined) await dropIncompleteCache(launch.npx);
        await removeFolder(launch.tmpDir);
        throw error;
      }
    },
  };
}

async function spawnChild(launch: ProcessLaunch, reaper: Reaper): Promise<StartedChild> {
  launch.beforeSpawn?.();
  const { command, args, env, cwd, tmpDir } = isolateNpx(dropForeignPrograms(launch));
  try {
    return await spawnTracked({ command, args, env, cwd, tmpDir, stdio: 'pipe' }, reaper);
  } catch (error) {
    throw await explainSpawnError(error as Error, launch);
  }
}

/** Takes programs of other workspaces from the PATH: a sandboxed session may have written them. */
function dropForeignPrograms(launch: ProcessLaunch): ProcessLaunch {
  const { PATH } = launch.env;
  if (PATH === undefined) return launch;
  const isOwn = (folder: string) => isInside(folder, launch.cwd);
  return { ...launch, env: { ...launch.env, PATH: withoutForeignFolders(PATH, isOwn) } };
}

/** The kernel reports ENOENT for the program and for its working directory. */
async function explainSpawnError(error: Error, launch: ProcessLaunch): Promise<Error> {
  const { code } = error as NodeJS.ErrnoException;
  if (code !== 'ENOENT' && code !== 'ENOTDIR') return error;
  const cwd = await stat(launch.cwd).catch(() => undefined);
  if (cwd?.isDirectory()) return error;
  const clearer = new Error(`The working directory does not exist: ${launch.cwd}`, { cause: error });
  return Object.assign(clearer, { code });
}

/**
 * Starts npx so that the workspace cannot affect what runs. In the workspace npx would prefer its `node_modules`, obey
 * its `.npmrc` and put its `node_modules/.bin` on PATH, and a sandboxed server may have written all of them. So npx
 * runs in a folder that only root writes. The shell by which npm starts the server then enters the workspace.
 */
export function isolateNpx<Start extends NpxStart>(start: Start): Start {
  const { args, env, cwd, tmpDir, npx = { env: {} } } = start;
  if (!isInstallingNpx(start)) return start;
  const shell = join(tmpDir, 'enter-workspace');
  writeFileSync(shell, enterWorkspaceScript(cwd, npx), { flag: 'wx', mode: 0o700 });
  return {
    ...start,
    args: [`--prefix=${neutralFolder}`, `--script-shell=${shell}`, ...args],
    env: { ...env, ...npx.env, PATH: dropRelativeFolders(withoutProjectFolders(env['PATH'])) },
    cwd: neutralFolder,
  };
}

/**
 * A shell script that enters the workspace. npm's variables about its own folder are wrong there and are dropped, and so
 * are the variables that only npx gets.
 */
function enterWorkspaceScript(workspace: string, { env, completeFile }: NpxSetup): string {
  const quoted = quoteForShell(workspace);
  const dropped = ['npm_config_prefix', 'npm_config_local_prefix', 'npm_config_script_shell', ...Object.keys(env)];
  return `#!/bin/sh
cd -- ${quoted} || exit 126
INIT_CWD=${quoted}
export INIT_CWD
unset ${dropped.join(' ')}
${completeFile === undefined ? '' : `: > ${quoteForShell(completeFile)}\n`}exec /bin/sh "$@"
`;
}

const quoteForShell = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`;

function dropRelativeFolders(searchPath: string): string {
  return searchPath.split(delimiter).filter(isAbsolute).join(delimiter);
}
