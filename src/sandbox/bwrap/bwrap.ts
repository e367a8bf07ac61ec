import { realpathSync } from 'node:fs';
import { basename, join } from 'node:path';
import { removeFolder } from '../../lib/fs/remove-folder.ts';
import type { Confinement, Mount } from '../common/confinement.ts';
import { findTool } from '../common/find-program.ts';
import { createProbe, listMissingProtections, probeScript, readProbe, readProbeOutput } from '../common/probe.ts';
import { bwrapFailed, bwrapMissing, refuseVolume, sandboxUnavailable } from '../common/sandbox-errors.ts';
import { type ServerFiles, serverFiles } from '../common/server-files.ts';
import { visibilityRulesOf } from '../common/visibility-filter.ts';
import { addEgressProxy } from '../egress/add-egress-proxy.ts';
import { removeCgroupsOf } from '../limits/cgroup-notes.ts';
import { type Bounds, createLimiter, type Limiter } from '../limits/limiter.ts';
import { createWatchdog, releaseBounded, superviseBounded } from '../limits/supervise-bounded.ts';
import { findInheritedDescriptors } from '../processes/process-table.ts';
import { ensurePrivateFolder, type StartedChild, superviseChild } from '../processes/supervise.ts';
import type { ProbeResult, ProcessLaunch, RunnerOptions, SandboxRunner } from '../runner.ts';
import { type DeviceFile, makeDeviceFiles, sandboxEnvironment } from './bwrap-arguments.ts';
import { withMountChecks } from './guard/watch-mount-points.ts';
import { pinMounts } from './mounts.ts';
import { hasSeccompFilter, seccompFilter } from './seccomp-filter.ts';
import { spawnSandbox } from './spawn-sandbox.ts';

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
