import { createHash, randomBytes } from 'node:crypto';
import { existsSync, realpathSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { isAmbitError } from '../../errors.ts';
import { removeFolder } from '../../lib/fs/remove-folder.ts';
import type { BwrapRunnerOptions } from '../bwrap/bwrap.ts';
import { withMountChecks } from '../bwrap/guard/watch-mount-points.ts';
import { type Mounts, pinMounts } from '../bwrap/mounts.ts';
import { hasSeccompFilter } from '../bwrap/seccomp-filter.ts';
import type { Confinement, Mount } from '../common/confinement.ts';
import { findTool } from '../common/find-program.ts';
import { createProbe, listMissingProtections, probeScript, readProbe, readProbeOutput } from '../common/probe.ts';
import {
  engineFailed,
  engineMissing,
  isProgramMissing,
  programMissing,
  sandboxUnavailable,
} from '../common/sandbox-errors.ts';
import { scriptFiles, serverFiles } from '../common/server-files.ts';
import { visibilityRulesOf } from '../common/visibility-filter.ts';
import { addEgressProxy } from '../egress/open-egress.ts';
import { removeCgroupsOf } from '../limits/cgroup-notes.ts';
import { type Bounds, containerLayout, createLimiter } from '../limits/limiter.ts';
import type { EnforcedLimits, LimitEnforcer } from '../limits/limits.ts';
import {
  createWatchdog,
  ensurePrivateFolder,
  releaseBounded,
  superviseBounded,
  superviseChild,
  withMonitorCheck,
} from '../processes/supervise.ts';
import type { ProbeResult, ProcessLaunch, SandboxRunner } from '../runner.ts';
import {
  type Engine,
  EngineError,
  findEngines,
  noteContainer,
  removeContainer,
  removeContainerOf,
  runEngine,
} from './engine.ts';
import { seccompProfile } from './seccomp-profile.ts';
import {
  type EngineSetup,
  ensureImage,
  type StartedContainer,
  type StartRequest,
  startContainer,
} from './start-container.ts';

interface ContainerRunnerOptions extends BwrapRunnerOptions {
  /** False to ask the engine for no limits: then the watchdog of Ambit checks them. */
  readonly limitsByEngine?: boolean;
}

interface WorkingEngine {
  readonly setup: EngineSetup;
  readonly probed: ProbeResult;
}

const probeLimitMs = 20_000;
const markFile = 'mark';
/** The script of bwrap's probe, with the mark in the working directory and the pid of the shell. */
const containerProbeScript = `echo "self: $$"\ncat ${markFile}\n${probeScript}`;

/** Starts processes in containers of podman or docker, or not at all. */
export function createContainerRunner(options: ContainerRunnerOptions): SandboxRunner {
  const { reaper, tmpRoot, timing = { closeMs: 1000, termMs: 1000 } } = options;
  const searchPath = options.searchPath ?? (() => process.env['PATH']);
  const watchdog = createWatchdog();
  const limiter = options.limiter ?? createLimiter();
  /** The limiter of containers that are in no control group of Ambit. */
  const watchdogLimiter = createLimiter([]);
  let found: { readonly engines: string; readonly result: Promise<WorkingEngine> } | undefined;
  const images = createImageCache();
  const writeSeccompProfile = createProfileWriter(tmpRoot);
  const limiterFor = ({ joinsGroup }: EngineSetup) => (joinsGroup ? limiter : watchdogLimiter);

  async function runContainer(
    setup: EngineSetup,
    launch: ProcessLaunch,
    confinement: Confinement,
    files: StartRequest['files'],
  ): Promise<StartedContainer & Pick<Mounts, 'removePlaceholders' | 'watched'> & { readonly bounds: Bounds }> {
    await reaper.start();
    const enforced = containerEnforcement(setup.limitsByEngine, await limiterFor(setup).inForce(containerLayout));
    const seccompFile = await writeSeccompProfile(enforced.memoryMb !== 'watchdog');
    await ensurePrivateFolder(launch.tmpDir);
    let bounds: Bounds | undefined;
    try {
      bounds = await limiterFor(setup).bound(confinement.limits, launch.tmpDir, launch.owner, containerLayout);
      const mounts = await pinMounts(confinement, files, launch.tmpDir, confinement.image === undefined);
      try {
        const name = containerNameFor(tmpRoot, launch.tmpDir);
        noteContainer(launch.tmpDir, { engine: setup.engine, name });
        const labels = containerLabels(tmpRoot, launch.sessionId);
        const request = { setup, name, launch, confinement, files, mounts, labels, seccompFile, bounds };
        const started = await startContainer({ ...request, ensureImage: images.ensure }, reaper);
        return { ...started, bounds, removePlaceholders: mounts.removePlaceholders, watched: mounts.watched };
      } catch (error) {
        mounts.removePlaceholders();
        throw error;
      } finally {
        mounts.release();
      }
    } catch (error) {
      await removeContainerOf(tmpRoot, basename(launch.tmpDir));
      await removeCgroupsOf(tmpRoot, basename(launch.tmpDir));
      bounds?.release();
      await removeFolder(launch.tmpDir);
      // The engine may have lost its images.
      images.clear();
      if (!(error instanceof EngineError)) throw error;
      const { image } = confinement;
      if (image !== undefined && isProgramMissing(error.message)) throw programMissing(image, files);
      throw engineFailed(setup.engine, error.message);
    }
  }

  async function probeSetup(setup: EngineSetup): Promise<WorkingEngine> {
    const mark = randomBytes(16).toString('hex');
    const tmpDir = join(tmpRoot, `probe-${mark}`);
    await ensurePrivateFolder(tmpDir);
    await writeFile(join(tmpDir, markFile), `${mark}\n`);
    const home: Mount = { source: realpathSync.native(tmpDir), target: '/probe' };
    const probe = createProbe(containerProbeScript, tmpDir, home);
    const { child, ignoresLimits, bounds } = await runContainer(setup, ...probe);
    const running = superviseChild(child, timing, () => void releaseBounded(reaper, child, tmpDir, bounds));
    const [output, errors] = await readProbeOutput(running, probeLimitMs);
    const enforced = readContainerProbe(output, mark);
    if (enforced === undefined) throw engineFailed(setup.engine, errors.trim() || 'mounted files were not found');
    const lacks = listMissingProtections(enforced);
    if (lacks.length > 0) {
      throw sandboxUnavailable(
        `${setup.engine.kind} runs containers, but these protections are missing inside: ${lacks.join(', ')}`,
        `Install a newer ${setup.engine.kind}.`,
      );
    }
    const limitsByEngine = setup.limitsByEngine && !ignoresLimits;
    return {
      setup: { ...setup, limitsByEngine },
      probed: {
        enforced,
        limits: containerEnforcement(limitsByEngine, await limiterFor(setup).inForce(containerLayout)),
        by: setup.engine.kind,
      },
    };
  }

  async function findWorkingSetup(): Promise<WorkingEngine> {
    if (!hasSeccompFilter(process.arch))
      throw sandboxUnavailable(`there is no system call filter for the processor ${process.arch}`, 'Use x64 or arm64.');
    let refusal: unknown;
    const hasGroups = (await limiter.inForce(containerLayout)).memoryMb.startsWith('cgroup');
    for (const setup of listSetups(searchPath(), options.limitsByEngine ?? true, hasGroups)) {
      try {
        const result = await probeSetup(setup);
        await removeLeftoverContainers(setup.engine, tmpRoot).catch(() => 0);
        return result;
      } catch (error) {
        if (!isAmbitError(error)) throw error;
        refusal ??= error;
      }
    }
    throw refusal ?? engineMissing();
  }

  function findEngine(): Promise<WorkingEngine> {
    const engines = findEngines(searchPath())
      .map(({ path }) => path)
      .join(':');
    if (found?.engines === engines) return found.result;
    const result = findWorkingSetup();
    found = { engines, result };
    result.catch(() => {
      found = undefined;
    });
    return result;
  }

  return {
    name: 'container',
    probe: async () => (await findEngine()).probed,
    async start(launch) {
      const { confinement, command, args } = launch;
      if (confinement === undefined) throw new Error('The rules for the sandbox of this process are missing.');
      const { image, limits } = confinement;
      const rules = visibilityRulesOf(confinement);
      const { setup } = await findEngine();
      const path = launch.env['PATH'] ?? searchPath();
      const files =
        image === undefined
          ? serverFiles({ command, args, searchPath: path, ...rules })
          : scriptFiles({ command, args, ...rules });
      const started = await runContainer(setup, ...addEgressProxy(launch, confinement, files));
      const { child, first, removePlaceholders, watched } = started;
      const bounds = withMountChecks(withMonitorCheck(started.bounds, first), watched);
      const onGone = () => void releaseBounded(reaper, child, launch.tmpDir, bounds).finally(removePlaceholders);
      return { ...superviseBounded(child, { bounds, limits, watchdog, timing, onGone }), first };
    },
  };
}

/**
 * Lists the setups to try: each engine as it is; podman also with runc, and without limits of its own. Docker starts a
 * server before it can join a group: processes it has started by then would stay outside.
 */
export function listSetups(searchPath: string | undefined, limitsByEngine: boolean, hasGroups: boolean): EngineSetup[] {
  return findEngines(searchPath).flatMap((engine): EngineSetup[] => {
    const usual = { engine, globalFlags: [], limitsByEngine, joinsGroup: false };
    if (engine.kind === 'docker') return [usual];
    const runc = findTool('runc', searchPath);
    const setups = [usual, ...(runc === undefined ? [] : [{ ...usual, globalFlags: ['--runtime', runc] }])];
    const joining = hasGroups ? setups.map((each) => ({ ...each, joinsGroup: true })) : [];
    return [...joining, ...setups, { ...usual, limitsByEngine: false }];
  });
}

/** A control group of Ambit limits the containers of one owner together; an engine limits each of them. */
export function containerEnforcement(byEngine: boolean, { memoryMb, pids, cpus }: EnforcedLimits): EnforcedLimits {
  const each = byEngine ? 'container each' : undefined;
  const together = (means: LimitEnforcer) => (means.startsWith('cgroup') ? means : undefined);
  // In version 2 a process loses all limits of the engine's group when it joins Ambit's, in version 1 those that Ambit
  // sets.
  const eachCpu = memoryMb === 'cgroup v2' ? undefined : each;
  return {
    memoryMb: together(memoryMb) ?? each ?? 'watchdog',
    pids: together(pids) ?? each ?? 'watchdog',
    cpus: together(cpus) ?? eachCpu ?? 'none',
    fileMb: 'rlimit',
    openFiles: 'rlimit',
    wallSeconds: 'timer',
  };
}

/**
 * Undefined when the probe did not finish, or ran on another machine, which does not have our mounts. A container that
 * root starts has the users of the machine.
 */
function readContainerProbe(said: string, mark: string): ProbeResult['enforced'] | undefined {
  const enforced = readProbe(said, 'sh');
  if (enforced === undefined || !said.includes(mark)) return undefined;
  const { ['ownUsers']: _, ...rest } = enforced;
  return { ...rest, ownProcesses: /^self: 1$/m.test(said) };
}

/** Makes each image once, as long as the engine keeps it. */
function createImageCache(): { readonly ensure: typeof ensureImage; clear(): void } {
  const images = new Map<string, Promise<void>>();
  return {
    ensure(engine, image) {
      const known = images.get(image.name) ?? ensureImage(engine, image);
      images.set(image.name, known);
      return known;
    },
    clear: () => images.clear(),
  };
}

/** Returns a function that writes each seccomp profile once, and resolves with its path. */
function createProfileWriter(tmpRoot: string): (countsMemory: boolean) => Promise<string> {
  const files = new Map<boolean, Promise<string>>();
  return (countsMemory) => {
    const path = join(tmpRoot, `seccomp${countsMemory ? '' : '-uncounted'}.json`);
    const write = () => writeFile(path, seccompProfile(process.arch, countsMemory), { mode: 0o600 }).then(() => path);
    const file = files.get(countsMemory) ?? write();
    files.set(countsMemory, file);
    return file;
  };
}

/** The labels of a container, for people who use the engine themselves. */
function containerLabels(tmpRoot: string, session: string | undefined): string[] {
  return [
    `ambit.instance=${basename(tmpRoot)}`,
    `ambit.home=${hashDataDirectory(tmpRoot)}`,
    ...(session === undefined ? [] : [`ambit.session=${session}`]),
  ];
}

/** A hash that instances with the same data directory share. */
function hashDataDirectory(tmpRoot: string): string {
  return createHash('sha256').update(dirname(tmpRoot)).digest('hex').slice(0, 16);
}

/** The name of a container. It shows the instance, and no other container has such a name. */
function containerNameFor(tmpRoot: string, tmpDir: string): string {
  return `ambit-${basename(tmpRoot).replace(/^instance-/, '')}-${basename(tmpDir)}`;
}

/** Removes containers of instances whose folder is gone, with every note about them. Returns their number. */
async function removeLeftoverContainers(engine: Engine, tmpRoot: string): Promise<number> {
  const filter = `label=ambit.home=${hashDataDirectory(tmpRoot)}`;
  const { stdout } = await runEngine(engine, ['ps', '--all', '--filter', filter, '--format', '{{.Names}}']);
  const left = stdout.split('\n').filter((name) => {
    const instance = /^ambit-([A-Za-z0-9]+)-/.exec(name)?.[1];
    return instance !== undefined && !existsSync(join(dirname(tmpRoot), `instance-${instance}`));
  });
  const gone = await Promise.all(left.map((name) => removeContainer(engine, name)));
  return gone.filter((each) => each).length;
}
