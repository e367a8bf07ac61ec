import { randomBytes } from 'node:crypto';
import { realpathSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { text } from 'node:stream/consumers';
import { isAmbitError } from '../../errors.ts';
import { removeFolder } from '../../lib/fs/remove-folder.ts';
import { boundsWithGuards } from '../bwrap/guard/watch-mount-points.ts';
import { holdMounts, type Mounts } from '../bwrap/mounts.ts';
import { lacking } from '../bwrap/probe.ts';
import { scriptFiles, serverFiles } from '../bwrap/server-files.ts';
import { showRulesOf } from '../bwrap/visibility-filter.ts';
import type { Confinement } from '../common/confinement.ts';
import { lookUpTool } from '../common/find-program.ts';
import { unavailable } from '../common/sandbox-errors.ts';
import { withWayOut } from '../egress/add-egress-proxy.ts';
import { removeGroupsOf } from '../limits/cgroup-notes.ts';
import { type Bounds, containerShape, createLimiter, type Limiter } from '../limits/limiter.ts';
import type { InForce, Limits, Means } from '../limits/limits.ts';
import { createWatchdog, superviseBounded, watchingMonitor } from '../limits/supervise-bounded.ts';
import { makePrivateFolder, supervise } from '../processes/supervise.ts';
import type { Warden } from '../reaper/reaper.ts';
import type { EndTiming, Launch, Probed, SandboxRunner } from '../runner.ts';
import { cannotRun, isNoProgram, noEngine, noProgram } from './container-errors.ts';
import { noteContainer, removeContainerOf } from './container-notes.ts';
import { EngineRefusal, findEngines } from './engine.ts';
import { containerNameOf, labelsOf, removeLeftContainers } from './leftover-containers.ts';
import { provideImage } from './local-image.ts';
import { containerProbeScript, markFile, readContainerProbe } from './probe.ts';
import { isProfiled, seccompProfile } from './seccomp-profile.ts';
import { type Manner, type Started, type StartWanted, startContainer } from './start-container.ts';

export interface ContainerRunnerOptions {
  readonly warden: Warden;
  /** The instance's folder, where the warden finds the folders of processes. */
  readonly tmpRoot: string;
  readonly timing?: EndTiming;
  /** Where engines and the programs of servers are looked for. */
  readonly searchPath?: () => string | undefined;
  /** Where false, the engine is asked for no limits and Ambit looks, as it does where an engine keeps none. */
  readonly limitsByEngine?: boolean;
  readonly limiter?: Limiter;
}

interface Found {
  readonly manner: Manner;
  readonly probed: Probed;
}

const probeLimitMs = 20_000;
const probeLimits: Limits = { memoryMb: 512, pids: 64, cpus: 1, fileMb: 64, openFiles: 256, wallSeconds: 60 };

/** Starts processes in containers of podman or docker, or not at all. */
export function createContainerRunner(options: ContainerRunnerOptions): SandboxRunner {
  const { warden, tmpRoot, timing = { closeMs: 1000, termMs: 1000 } } = options;
  const searchPath = options.searchPath ?? (() => process.env['PATH']);
  const watchdog = createWatchdog();
  const limiter = options.limiter ?? createLimiter();
  /** For containers that are in no group of Ambit's. */
  const looking = createLimiter([]);
  let found: { readonly engines: string; readonly result: Promise<Found> } | undefined;
  const seccompFiles = new Map<boolean, Promise<string>>();
  const images = new Map<string, Promise<void>>();

  const provide: typeof provideImage = (engine, image) => {
    const there = images.get(image.name) ?? provideImage(engine, image);
    images.set(image.name, there);
    return there;
  };

  async function seccompFileFor(manner: Manner): Promise<string> {
    const kept = inForceBy(manner.limitsByEngine, await limiterFor(manner).inForce(containerShape));
    const countsMemory = kept.memoryMb !== 'watchdog';
    const path = join(tmpRoot, `seccomp${countsMemory ? '' : '-uncounted'}.json`);
    const written = seccompFiles.get(countsMemory) ?? writtenTo(path, seccompProfile(process.arch, countsMemory));
    seccompFiles.set(countsMemory, written);
    return written;
  }

  async function run(
    manner: Manner,
    launch: Launch,
    confinement: Confinement,
    files: StartWanted['files'],
  ): Promise<Started & Pick<Mounts, 'clearAway' | 'watched'> & { readonly bounds: Bounds }> {
    await warden.start();
    const file = await seccompFileFor(manner);
    await makePrivateFolder(launch.tmpDir);
    let bounds: Bounds | undefined;
    try {
      const keeping = limiterFor(manner);
      bounds = await keeping.bound(confinement.limits, launch.tmpDir, launch.owner, containerShape);
      const mounts = await holdMounts(confinement, files, launch.tmpDir, confinement.image === undefined);
      try {
        const name = containerNameOf(tmpRoot, launch.tmpDir);
        noteContainer(launch.tmpDir, { engine: manner.engine, name });
        const labels = labelsOf(tmpRoot, launch.sessionId);
        const started = await startContainer(
          { manner, name, launch, confinement, files, mounts, labels, seccompFile: file, bounds, provide },
          warden,
        );
        return { ...started, bounds, clearAway: mounts.clearAway, watched: mounts.watched };
      } catch (error) {
        mounts.clearAway();
        throw error;
      } finally {
        mounts.release();
      }
    } catch (error) {
      await removeContainerOf(tmpRoot, basename(launch.tmpDir));
      await removeGroupsOf(tmpRoot, basename(launch.tmpDir));
      bounds?.release();
      await removeFolder(launch.tmpDir);
      // It may have lost what we think it has.
      images.clear();
      if (!(error instanceof EngineRefusal)) throw error;
      const { image } = confinement;
      if (image !== undefined && isNoProgram(error.message)) throw noProgram(image, files);
      throw cannotRun(manner.engine, error.message);
    }
  }

  const limiterFor = ({ joinsGroup }: Manner) => (joinsGroup ? limiter : looking);

  async function release(pid: number, tmpDir: string, bounds: Bounds): Promise<void> {
    await warden.release(pid, tmpDir);
    bounds.release();
  }

  async function lookInside(manner: Manner): Promise<Found> {
    const mark = randomBytes(16).toString('hex');
    const tmpDir = join(tmpRoot, `probe-${mark}`);
    await makePrivateFolder(tmpDir);
    await writeFile(join(tmpDir, markFile), `${mark}\n`);
    const home = { real: realpathSync.native(tmpDir), inside: '/probe' };
    const confinement = { home, readable: [], writable: [], hidden: [], limits: probeLimits };
    const files = { program: '/bin/sh', shown: [], links: [], searched: [] };
    const launch = { command: '/bin/sh', args: ['-c', containerProbeScript], env: {}, cwd: tmpDir, tmpDir };
    const { child, ignoresLimits, bounds } = await run(manner, launch, confinement, files);
    const running = supervise(child, timing, () => void release(child.pid, tmpDir, bounds));
    const limit = setTimeout(() => void running.end(), probeLimitMs).unref();
    running.stdin.end();
    const [said, complaints] = await Promise.all([text(running.stdout), text(running.stderr), running.exited]);
    clearTimeout(limit);
    const enforced = readContainerProbe(said, mark);
    if (enforced === undefined) throw cannotRun(manner.engine, complaints.trim() || 'what is mounted is not found');
    const lacks = lacking(enforced);
    if (lacks.length > 0) {
      throw unavailable(
        `${manner.engine.kind} runs containers, but this does not hold inside: ${lacks.join(', ')}`,
        `Install a newer ${manner.engine.kind}.`,
      );
    }
    const limitsByEngine = manner.limitsByEngine && !ignoresLimits;
    return {
      manner: { ...manner, limitsByEngine },
      probed: {
        enforced: { ...enforced },
        limits: inForceBy(limitsByEngine, await limiterFor(manner).inForce(containerShape)),
        by: manner.engine.kind,
      },
    };
  }

  async function findManner(): Promise<Found> {
    if (!isProfiled(process.arch))
      throw unavailable(`no filter is known for the processor ${process.arch}`, 'Use x64 or arm64.');
    let refusal: unknown;
    const hasGroups = (await limiter.inForce(containerShape)).memoryMb.startsWith('cgroup');
    for (const manner of mannersOf(searchPath(), options.limitsByEngine ?? true, hasGroups)) {
      try {
        const result = await lookInside(manner);
        await removeLeftContainers(manner.engine, tmpRoot).catch(() => 0);
        return result;
      } catch (error) {
        if (!isAmbitError(error)) throw error;
        refusal ??= error;
      }
    }
    throw refusal ?? noEngine();
  }

  function find(): Promise<Found> {
    const engines = findEngines(searchPath())
      .map(({ path }) => path)
      .join(':');
    if (found?.engines === engines) return found.result;
    const result = findManner();
    found = { engines, result };
    result.catch(() => {
      found = undefined;
    });
    return result;
  }

  return {
    name: 'container',
    probe: async () => (await find()).probed,
    async start(launch) {
      const { confinement, command, args } = launch;
      if (confinement === undefined) throw new Error('Nothing says what this process may do in its sandbox.');
      const { image, limits } = confinement;
      const rules = showRulesOf(confinement);
      const { manner } = await find();
      const path = launch.env['PATH'] ?? searchPath();
      const files =
        image === undefined
          ? serverFiles({ command, args, searchPath: path, ...rules })
          : scriptFiles({ command, args, ...rules });
      const started = await run(manner, ...withWayOut(launch, confinement, files));
      const { child, first, clearAway, watched } = started;
      const bounds = boundsWithGuards(watchingMonitor(started.bounds, first), watched);
      const onGone = () => void release(child.pid, launch.tmpDir, bounds).finally(clearAway);
      return superviseBounded(child, { bounds, limits, watchdog, timing, onGone });
    },
  };
}

/**
 * Each engine as it is; podman also with the other runtime, and without limits of its own. Docker starts a server before
 * it can be taken into a group: what it has started by then would stay outside.
 */
export function mannersOf(searchPath: string | undefined, limitsByEngine: boolean, hasGroups: boolean): Manner[] {
  return findEngines(searchPath).flatMap((engine): Manner[] => {
    const usual = { engine, global: [], limitsByEngine, joinsGroup: false };
    if (engine.kind === 'docker') return [usual];
    const runc = lookUpTool('runc', searchPath);
    const ways = [usual, ...(runc === undefined ? [] : [{ ...usual, global: ['--runtime', runc] }])];
    const joining = hasGroups ? ways.map((way) => ({ ...way, joinsGroup: true })) : [];
    return [...joining, ...ways, { ...usual, limitsByEngine: false }];
  });
}

/** A group of Ambit's own bounds the containers of one owner together; an engine bounds each of them. */
export function inForceBy(byEngine: boolean, { memoryMb, pids, cpus }: InForce): InForce {
  const each = byEngine ? 'container each' : undefined;
  const together = (means: Means) => (means.startsWith('cgroup') ? means : undefined);
  // In version 2 a process leaves the engine's group for Ambit's with all limits, in version 1 with those that Ambit has.
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

async function writtenTo(path: string, content: string): Promise<string> {
  await writeFile(path, content, { mode: 0o600 });
  return path;
}
