import { once } from 'node:events';
import { closeSync, openSync, readFileSync, realpathSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import type { Readable, Writable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { setTimeout as delay } from 'node:timers/promises';
import { removeFolder } from '../../lib/fs/remove-folder.ts';
import type { Confinement, Mount } from '../common/confinement.ts';
import { findTool } from '../common/find-program.ts';
import { createProbe, listMissingProtections, probeScript, readProbe, readProbeOutput } from '../common/probe.ts';
import {
  bwrapFailed,
  bwrapMissing,
  refuseVolume,
  sandboxUnavailable,
  writersNotPaused,
} from '../common/sandbox-errors.ts';
import { type ServerFiles, serverFiles } from '../common/server-files.ts';
import { visibilityRulesOf } from '../common/visibility-filter.ts';
import { addEgressProxy } from '../egress/open-egress.ts';
import { removeCgroupsOf } from '../limits/cgroup-notes.ts';
import { type Bounds, createLimiter, type Limiter } from '../limits/limiter.ts';
import { NotPausedError, registerWriter, withWritersPaused } from '../processes/pause-writers.ts';
import { findInheritedDescriptors } from '../processes/process-table.ts';
import {
  createWatchdog,
  ensurePrivateFolder,
  releaseBounded,
  type StartedChild,
  spawnTracked,
  superviseBounded,
  superviseChild,
} from '../processes/supervise.ts';
import type { Reaper } from '../reaper/reaper.ts';
import type { ProbeResult, ProcessLaunch, RunnerOptions, SandboxRunner } from '../runner.ts';
import {
  type BwrapProfile,
  bwrapArguments,
  type DeviceFile,
  groupFile,
  hostsFile,
  makeDeviceFiles,
  passwdFile,
  sandboxEnvironment,
} from './bwrap-arguments.ts';
import { withMountChecks } from './guard/watch-mount-points.ts';
import {
  assertMountPointsClear,
  findMountFolders,
  type Mounts,
  mountsInOrder,
  parseMountInfo,
  pinMounts,
  verifyMounts,
} from './mounts.ts';
import { hasSeccompFilter, seccompFilter } from './seccomp-filter.ts';

export interface BwrapRunnerOptions extends RunnerOptions {
  /** The PATH on which bwrap, or an engine, and the programs of servers are found. */
  readonly searchPath?: () => string | undefined;
  readonly limiter?: Limiter;
}

const probeLimitMs = 10_000;
/** Counts folders in the instance's own, which several runners may share. */
let folderCount = 0;

/** Starts processes inside bubblewrap, or not at all. */
export function createBwrapRunner(options: BwrapRunnerOptions): SandboxRunner {
  const { reaper, tmpRoot, timing = { closeMs: 1000, termMs: 1000 } } = options;
  const searchPath = options.searchPath ?? (() => process.env['PATH']);
  const watchdog = createWatchdog();
  const limiter = options.limiter ?? createLimiter();
  let inherited: readonly number[] | undefined;
  let probed: { readonly bwrap: string; readonly result: Promise<ProbeResult> } | undefined;
  let devices: Promise<readonly DeviceFile[]> | undefined;

  function findBwrap(): string {
    const bwrap = process.platform === 'linux' ? findTool('bwrap', searchPath()) : undefined;
    if (bwrap === undefined) throw bwrapMissing();
    return bwrap;
  }

  async function spawnServer(
    launch: ProcessLaunch,
    confinement: Confinement,
    files: ServerFiles,
  ): Promise<{ child: StartedChild; bounds: Bounds; removePlaceholders: () => void }> {
    const bwrap = findBwrap();
    if (!hasSeccompFilter(process.arch))
      throw sandboxUnavailable(`there is no system call filter for the processor ${process.arch}`, 'Use x64 or arm64.');
    const { memoryMb: keptBy } = await limiter.inForce();
    const seccomp = seccompFilter(process.arch, keptBy !== 'watchdog');
    inherited ??= findInheritedDescriptors();
    await reaper.start();
    devices ??= makeDeviceFiles(join(tmpRoot, `devices-${++folderCount}`));
    const own = await devices;
    await ensurePrivateFolder(launch.tmpDir);
    let bounds: Bounds | undefined;
    try {
      bounds = await limiter.bound(confinement.limits, launch.tmpDir, launch.owner);
      const mounts = await pinMounts(confinement, files, launch.tmpDir);
      try {
        const child = await spawnSandbox(
          {
            bwrap,
            program: [...(files.before ?? []), files.program, ...launch.args] as [string, ...string[]],
            bounds,
            beforeSpawn: launch.beforeSpawn,
            env: sandboxEnvironment(launch.env, files.searched),
            workFolder: confinement.workFolder ?? confinement.home.target,
            devices: own,
            mounts,
            seccomp,
            tmpBytes: confinement.limits.memoryMb * 2 ** 20,
            inherited,
            tmpDir: launch.tmpDir,
          },
          reaper,
        );
        const { watched, removePlaceholders } = mounts;
        return { child, bounds: withMountChecks(bounds, watched), removePlaceholders };
      } catch (error) {
        mounts.removePlaceholders();
        throw error;
      } finally {
        mounts.release();
      }
    } catch (error) {
      await removeCgroupsOf(tmpRoot, basename(launch.tmpDir));
      bounds?.release();
      await removeFolder(launch.tmpDir);
      throw error;
    }
  }

  async function probeSandbox(): Promise<ProbeResult> {
    const tmpDir = join(tmpRoot, `probe-${process.pid}-${++folderCount}`);
    await ensurePrivateFolder(tmpDir);
    const home: Mount = { source: realpathSync.native(tmpDir), target: '/probe' };
    const { child, bounds } = await spawnServer(...createProbe(probeScript, tmpDir, home));
    const running = superviseChild(child, timing, () => void releaseBounded(reaper, child, tmpDir, bounds));
    const [output, errors] = await readProbeOutput(running, probeLimitMs);
    const enforced = readProbe(output, 'bwrap');
    if (enforced === undefined) throw bwrapFailed(errors);
    const lacks = listMissingProtections(enforced);
    if (lacks.length > 0)
      throw sandboxUnavailable(
        `bwrap starts, but these protections are missing inside: ${lacks.join(', ')}`,
        'Install bubblewrap 0.8 or newer.',
      );
    return { enforced, limits: await limiter.inForce() };
  }

  async function probe(): Promise<ProbeResult> {
    const bwrap = findBwrap();
    if (probed?.bwrap === bwrap) return probed.result;
    const result = probeSandbox();
    probed = { bwrap, result };
    result.catch(() => {
      probed = undefined;
    });
    return result;
  }

  return {
    name: 'bwrap',
    probe,
    async start(launch) {
      const { confinement } = launch;
      if (confinement === undefined) throw new Error('The rules for the sandbox of this process are missing.');
      refuseVolume(confinement);
      await probe();
      const files = serverFiles({
        command: launch.command,
        args: launch.args,
        searchPath: launch.env['PATH'] ?? searchPath(),
        ...visibilityRulesOf(confinement),
      });
      const { child, bounds, removePlaceholders } = await spawnServer(...addEgressProxy(launch, confinement, files));
      const onGone = () => void releaseBounded(reaper, child, launch.tmpDir, bounds).finally(removePlaceholders);
      return superviseBounded(child, { bounds, limits: confinement.limits, watchdog, timing, onGone });
    },
  };
}

interface SandboxSpawn extends Pick<BwrapProfile, 'env' | 'workFolder' | 'devices' | 'tmpBytes'> {
  readonly bwrap: string;
  /** The program with its arguments. */
  readonly program: readonly [string, ...string[]];
  readonly bounds: Bounds;
  readonly beforeSpawn: (() => void) | undefined;
  readonly mounts: Mounts;
  readonly seccomp: Buffer;
  /** Descriptors that must not be inherited. */
  readonly inherited: readonly number[];
  readonly tmpDir: string;
}

const descriptorNumbers = { args: 3, seccomp: 4, passwd: 5, group: 6, hosts: 7, block: 8, info: 9 } as const;
const firstMountDescriptor = 10;
const stderrWaitMs = 500;
const pollMs = 1;
/** A limit against hanging. */
const setUpLimitMs = 30_000;

/**
 * Starts bwrap with an empty environment and passes everything over descriptors: every user of the machine, and the
 * program inside, can read its command line. Bwrap gets its arguments only once the reaper tracks it, and can do
 * nothing before.
 */
async function spawnSandbox(wanted: SandboxSpawn, reaper: Reaper): Promise<StartedChild> {
  const { mounts } = wanted;
  const held = mountsInOrder(mounts).map(({ pinned }) => pinned.descriptor);
  const stdio: ('pipe' | 'ignore' | number)[] = [...Array<'pipe'>(firstMountDescriptor).fill('pipe'), ...held];
  const nothing = openSync('/dev/null', 'r');
  try {
    for (const number of wanted.inherited) {
      while (stdio.length <= number) stdio.push('ignore');
      if (stdio[number] === 'ignore') stdio[number] = nothing;
    }
    const { bounds, tmpDir } = wanted;
    const started = bounds.wrapOutside(wanted.bwrap, [
      ...['--args', String(descriptorNumbers.args), '--'],
      ...bounds.wrapInside(wanted.program),
    ]);
    const child = await spawnTracked({ ...started, cwd: '/', stdio, tmpDir }, reaper);
    await killOnFailure(child, wanted, reaper, async () => {
      await bounds.admit(child.pid);
      if (hasExited(child)) throw new Error('The sandbox was ended during its start.');
      wanted.beforeSpawn?.();
      await setUpMounts(child, wanted, (descriptor) => firstMountDescriptor + held.indexOf(descriptor));
      wanted.beforeSpawn?.();
    });
    writeToChild(child, descriptorNumbers.block, 'go');
    return child;
  } finally {
    closeSync(nothing);
  }
}

/**
 * Lets bwrap mount everything, and verifies the mounts. Other servers could move folders meanwhile and so mislead
 * bwrap, so those that may write there are paused. The new program counts as a writer before it runs.
 */
async function setUpMounts(child: StartedChild, wanted: SandboxSpawn, numberOf: (fd: number) => number): Promise<void> {
  const { mounts } = wanted;
  const writable = mounts.entries.flatMap(({ pinned, writable }) => (writable ? [pinned.source] : []));
  await withWritersPaused({ mountFolders: findMountFolders(mounts), writable }, async () => {
    assertMountPointsClear(mounts);
    writeToChild(child, descriptorNumbers.seccomp, wanted.seccomp);
    writeToChild(child, descriptorNumbers.passwd, passwdFile);
    writeToChild(child, descriptorNumbers.group, groupFile);
    writeToChild(child, descriptorNumbers.hosts, hostsFile);
    const profile = bwrapArguments({ ...wanted, numberOf, read: descriptorNumbers });
    writeToChild(child, descriptorNumbers.args, profile.map((argument) => `${argument}\0`).join(''));
    verifyMounts(await waitForSetUp(child), mounts);
    child.once('exit', registerWriter(child.pid, writable));
  }).catch((error) => {
    throw error instanceof NotPausedError ? writersNotPaused(error) : error;
  });
}

/** Waits until bwrap has mounted everything. Returns the process that becomes the server. */
async function waitForSetUp(child: StartedChild): Promise<number> {
  const said = await text((child.stdio as readonly unknown[])[descriptorNumbers.info] as Readable);
  const pid = Number(/"child-pid":\s*(\d+)/.exec(said)?.[1]);
  const deadline = performance.now() + setUpLimitMs;
  while (pid > 1 && !hasExited(child) && performance.now() < deadline) {
    if (await isSetUp(pid)) return pid;
    await delay(pollMs);
  }
  throw bwrapFailed('');
}

/** Whether bwrap has finished: meanwhile it has the sandbox and the machine as two folders of its own root. */
async function isSetUp(pid: number): Promise<boolean> {
  const mounts = parseMountInfo(await readFile(`/proc/${pid}/mountinfo`, 'utf8').catch(() => ''));
  const root = mounts.find(({ mountPoint }) => mountPoint === '/');
  const atWork = mounts.some(({ mountPoint }) => /^\/(newroot|oldroot)(\/|$)/.test(mountPoint));
  return root !== undefined && root.device !== readOwnRootDevice() && !atWork;
}

const readOwnRootDevice = (): string | undefined =>
  parseMountInfo(readFileSync('/proc/self/mountinfo', 'utf8')).find(({ mountPoint }) => mountPoint === '/')?.device;

const hasExited = ({ exitCode, signalCode }: StartedChild): boolean => exitCode !== null || signalCode !== null;

/** Kills a process that cannot be limited, may not start after all, or has wrong mounts, before its program runs. */
async function killOnFailure(
  child: StartedChild,
  { tmpDir }: SandboxSpawn,
  reaper: Reaper,
  start: () => Promise<void>,
): Promise<void> {
  const left = once(child, 'exit');
  // Node discards the output of an ended child that nobody listens for.
  const listening = () => {};
  child.stderr.on('readable', listening);
  try {
    await start();
    child.stderr.off('readable', listening);
  } catch (error) {
    child.kill('SIGKILL');
    const [code] = await left;
    await reaper.release(child.pid, tmpDir);
    // A child that waits for Ambit exits by itself only when it has failed.
    if (code === null) throw error;
    throw bwrapFailed(code === 0 ? '' : await Promise.race([text(child.stderr), delay(stderrWaitMs, '')]));
  }
}

function writeToChild(child: StartedChild, number: number, content: Buffer | string): void {
  const pipe = (child.stdio as readonly unknown[])[number] as Writable;
  // The child may have ended already; then its exit code reports it.
  pipe.on('error', () => {});
  pipe.end(content);
}
