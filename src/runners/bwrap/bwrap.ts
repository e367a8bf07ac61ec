import { existsSync, realpathSync } from 'node:fs';
import { basename, join } from 'node:path';
import { text } from 'node:stream/consumers';
import type { Confinement } from '../confinement.ts';
import { lookUp } from '../look-up.ts';
import { makePrivateFolder } from '../private-folder.ts';
import { removeFolder } from '../remove-folder.ts';
import type { EndTiming, Exit, Launch, Runner, RunningProcess } from '../runner.ts';
import type { StartedChild } from '../spawn-watched.ts';
import { supervise } from '../supervise.ts';
import type { Warden } from '../warden.ts';
import { createWatchdog } from '../watchdog.ts';
import { type Device, ownDevices } from './devices.ts';
import { sandboxEnvironment } from './environment.ts';
import { inheritedDescriptors } from './inherited.ts';
import { holdMounts } from './mounts.ts';
import { type Enforced, lacking, probeScript, readProbe } from './probe.ts';
import { cannotStart, missing, unavailable } from './remedy.ts';
import { isFiltered, seccompFilter } from './seccomp.ts';
import { type ServerFiles, serverFiles } from './server-files.ts';
import { spawnSandbox } from './spawn-sandbox.ts';

export interface BwrapRunnerOptions {
  readonly warden: Warden;
  /** The instance's folder, where the warden finds the folders of processes. */
  readonly tmpRoot: string;
  readonly timing?: EndTiming;
  /** Where bwrap and the programs of servers are looked for. */
  readonly searchPath?: () => string | undefined;
}

export interface BwrapRunner extends Runner {
  /** Starts a sandbox for real and tells what holds inside; rejects with SANDBOX_UNAVAILABLE and the remedy. */
  probe(): Promise<Enforced>;
}

const probeLimitMs = 10_000;
/** bwrap has one process inside as well: the first one, which collects the others. */
const bwrapInside = 1;
const prlimit = '/usr/bin/prlimit';
/** They fetch what they start, or hand it to another program outside; neither can be done from inside. */
const fetchers = new Set(['npx', 'bunx', 'uvx', 'pipx', 'docker', 'podman']);

/** Starts processes inside bubblewrap, or not at all. */
export function createBwrapRunner(options: BwrapRunnerOptions): BwrapRunner {
  const { warden, tmpRoot, timing = { closeMs: 1000, termMs: 1000 } } = options;
  const searchPath = options.searchPath ?? (() => process.env['PATH']);
  const watchdog = createWatchdog();
  const seccomp = isFiltered(process.arch) ? seccompFilter(process.arch) : undefined;
  let inherited: readonly number[] | undefined;
  let probed: { readonly bwrap: string; readonly enforced: Promise<Enforced> } | undefined;
  let devices: Promise<readonly Device[]> | undefined;
  let probes = 0;

  function findBwrap(): string {
    const bwrap = process.platform === 'linux' ? lookUp('bwrap', searchPath()) : undefined;
    if (bwrap === undefined) throw missing(process.platform);
    return bwrap;
  }

  async function spawn(launch: Launch, confinement: Confinement, files: ServerFiles): Promise<StartedChild> {
    const bwrap = findBwrap();
    if (seccomp === undefined)
      throw unavailable(`no filter is known for the processor ${process.arch}`, 'Use x64 or arm64.');
    inherited ??= inheritedDescriptors();
    await warden.start();
    devices ??= ownDevices(join(tmpRoot, 'devices'));
    const own = await devices;
    await makePrivateFolder(launch.tmpDir);
    try {
      const mounts = holdMounts(confinement, files);
      try {
        launch.lastLook?.();
        return await spawnSandbox(
          {
            bwrap,
            program: files.program,
            args: launch.args,
            env: sandboxEnvironment(launch.env, files.searched),
            workFolder: confinement.home.inside,
            devices: own,
            mounts,
            seccomp,
            inherited,
            tmpDir: launch.tmpDir,
          },
          warden,
        );
      } finally {
        mounts.release();
      }
    } catch (error) {
      await removeFolder(launch.tmpDir);
      throw error;
    }
  }

  async function lookInside(): Promise<Enforced> {
    const tmpDir = join(tmpRoot, `probe-${process.pid}-${++probes}`);
    await makePrivateFolder(tmpDir);
    const home = { real: realpathSync.native(tmpDir), inside: '/probe' };
    const confinement = { home, readable: [], writable: [], hidden: [], memoryMb: 512, pids: 64 };
    const files = { program: '/bin/sh', shown: [], links: [], searched: [] };
    const launch = { command: '/bin/sh', args: ['-c', probeScript], env: {}, cwd: tmpDir, tmpDir };
    const child = await spawn(launch, confinement, files);
    const running = supervise(child, timing, () => void warden.release(child.pid, tmpDir));
    const limit = setTimeout(() => void running.end(), probeLimitMs).unref();
    running.stdin.end();
    const [said, complaints] = await Promise.all([text(running.stdout), text(running.stderr), running.exited]);
    clearTimeout(limit);
    const enforced = readProbe(said);
    if (enforced === undefined) throw cannotStart(complaints);
    const lacks = lacking(enforced);
    if (lacks.length > 0)
      throw unavailable(
        `bwrap starts, but this does not hold inside: ${lacks.join(', ')}`,
        'Install bubblewrap 0.8 or newer.',
      );
    return enforced;
  }

  /** Once it has worked it is not asked again; while it does not, every start looks whether it does by now. */
  function probe(): Promise<Enforced> {
    try {
      const bwrap = findBwrap();
      if (probed?.bwrap === bwrap) return probed.enforced;
      const enforced = lookInside();
      probed = { bwrap, enforced };
      enforced.catch(() => {
        probed = undefined;
      });
      return enforced;
    } catch (error) {
      return Promise.reject(error as Error);
    }
  }

  function superviseBounded(child: StartedChild, launch: Launch, { memoryMb, pids }: Confinement): RunningProcess {
    const running = supervise(child, timing, () => void warden.release(child.pid, launch.tmpDir));
    let reason: string | undefined;
    const stop = watchdog.watch({
      pid: child.pid,
      besides: bwrapInside,
      limit: { memoryMb, pids },
      onOver(why) {
        reason = why;
        // With bwrap goes the first process inside, and with that one all others.
        child.kill('SIGKILL');
      },
    });
    const explained = (exit: Exit): Exit => (reason === undefined ? exit : { ...exit, reason });
    const exited = running.exited.then((exit) => {
      stop();
      return explained(exit);
    });
    return { ...running, exited, end: () => running.end().then(explained) };
  }

  return {
    name: 'bwrap',
    probe,
    async start(launch) {
      const { confinement } = launch;
      if (confinement === undefined) throw new Error('Nothing says what this process may do in its sandbox.');
      const called = basename(launch.command);
      if (fetchers.has(called)) throw fetches(called);
      await probe();
      const files = serverFiles({
        command: launch.command,
        args: launch.args,
        searchPath: launch.env['PATH'] ?? searchPath(),
        hidden: confinement.hidden,
      });
      const bounded = withLimits(launch, files, confinement.pids);
      const child = await spawn(bounded.launch, confinement, bounded.files);
      return superviseBounded(child, launch, confinement);
    },
  };
}

/** The kernel's own limit where there is one for this sandbox alone; for root there is none, and the watchdog is all. */
function withLimits(launch: Launch, files: ServerFiles, pids: number): { launch: Launch; files: ServerFiles } {
  if (!existsSync(prlimit)) return { launch, files };
  const args = ['--core=0', `--nproc=${pids + bwrapInside}`, '--', files.program, ...launch.args];
  return { launch: { ...launch, args }, files: { ...files, program: prlimit } };
}

function fetches(name: string): Error {
  return unavailable(
    `"${name}" starts its server from elsewhere, which cannot be done from inside a sandbox yet`,
    'Install the package and name its program, or use a direct session where the operator allows that.',
  );
}
