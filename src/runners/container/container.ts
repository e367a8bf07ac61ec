import { randomBytes } from 'node:crypto';
import { realpathSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { text } from 'node:stream/consumers';
import { isAmbitError } from '../../errors.ts';
import { holdMounts } from '../bwrap/mounts.ts';
import { lacking } from '../bwrap/probe.ts';
import { unavailable } from '../bwrap/remedy.ts';
import { scriptFiles, serverFiles } from '../bwrap/server-files.ts';
import { withWayOut } from '../bwrap/with-way-out.ts';
import type { Confinement } from '../confinement.ts';
import type { InForce, Limits } from '../limits/limits.ts';
import { createOwners } from '../limits/owners.ts';
import { superviseBounded } from '../limits/supervise-bounded.ts';
import { lookUp } from '../look-up.ts';
import { makePrivateFolder } from '../private-folder.ts';
import { removeFolder } from '../remove-folder.ts';
import type { EndTiming, Launch, Probed, SandboxRunner } from '../runner.ts';
import { supervise } from '../supervise.ts';
import type { Warden } from '../warden.ts';
import { createWatchdog } from '../watchdog.ts';
import { boundContainer } from './bounds.ts';
import { noteContainer, removeContainerOf } from './container-list.ts';
import { EngineRefusal, findEngines } from './engine.ts';
import { containerNameOf, labelsOf, removeLeftContainers } from './left-containers.ts';
import { provideImage } from './local-image.ts';
import { containerProbeScript, markFile, readContainerProbe } from './probe.ts';
import { cannotRun, isNoProgram, noEngine, noProgram } from './remedy.ts';
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
  let found: { readonly engines: string; readonly result: Promise<Found> } | undefined;
  let seccompFile: Promise<string> | undefined;
  const owners = createOwners<unknown>();
  const images = new Map<string, Promise<void>>();

  const provide: typeof provideImage = (engine, image) => {
    const there = images.get(image.name) ?? provideImage(engine, image);
    images.set(image.name, there);
    return there;
  };

  async function run(
    manner: Manner,
    launch: Launch,
    confinement: Confinement,
    files: StartWanted['files'],
  ): Promise<Started> {
    await warden.start();
    seccompFile ??= writtenTo(join(tmpRoot, 'seccomp.json'), seccompProfile(process.arch));
    await makePrivateFolder(launch.tmpDir);
    try {
      const mounts = holdMounts(confinement, files, confinement.image === undefined);
      try {
        const name = containerNameOf(tmpRoot, launch.tmpDir);
        noteContainer(launch.tmpDir, { engine: manner.engine, name });
        const labels = labelsOf(tmpRoot, launch.sessionId);
        const file = await seccompFile;
        return await startContainer(
          { manner, name, launch, confinement, files, mounts, labels, seccompFile: file, provide },
          warden,
        );
      } finally {
        mounts.release();
      }
    } catch (error) {
      await removeContainerOf(tmpRoot, basename(launch.tmpDir));
      await removeFolder(launch.tmpDir);
      // It may have lost what we think it has.
      images.clear();
      if (!(error instanceof EngineRefusal)) throw error;
      const { image } = confinement;
      if (image !== undefined && isNoProgram(error.message)) throw noProgram(image, files);
      throw cannotRun(manner.engine, error.message);
    }
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
    const { child, ignoresLimits } = await run(manner, launch, confinement, files);
    const running = supervise(child, timing, () => void warden.release(child.pid, tmpDir));
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
      probed: { enforced: { ...enforced }, limits: inForce(limitsByEngine), by: manner.engine.kind },
    };
  }

  async function findManner(): Promise<Found> {
    if (!isProfiled(process.arch))
      throw unavailable(`no filter is known for the processor ${process.arch}`, 'Use x64 or arm64.');
    let refusal: unknown;
    for (const manner of mannersOf(searchPath(), options.limitsByEngine ?? true)) {
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
      const { image, hidden, limits } = confinement;
      const { manner } = await find();
      const path = launch.env['PATH'] ?? searchPath();
      const files =
        image === undefined
          ? serverFiles({ command, args, searchPath: path, hidden })
          : scriptFiles({ command, args, hidden });
      const { child, first } = await run(manner, ...withWayOut(launch, confinement, files));
      const owner = launch.owner ?? launch.tmpDir;
      const bounds = boundContainer({ owners, owner, limits, first, together: false });
      const onGone = () => void warden.release(child.pid, launch.tmpDir).then(bounds.release);
      return superviseBounded(child, { bounds, limits, watchdog, timing, onGone });
    },
  };
}

/** Each engine as it is; podman also with the other runtime, and without limits of its own. */
function mannersOf(searchPath: string | undefined, limitsByEngine: boolean): Manner[] {
  return findEngines(searchPath).flatMap((engine): Manner[] => {
    const usual = { engine, global: [], limitsByEngine };
    if (engine.kind === 'docker') return [usual];
    const runc = lookUp('runc', searchPath);
    return [
      usual,
      ...(runc === undefined ? [] : [{ ...usual, global: ['--runtime', runc] }]),
      { ...usual, limitsByEngine: false },
    ];
  });
}

function inForce(byEngine: boolean): InForce {
  const rest = { fileMb: 'rlimit', openFiles: 'rlimit', wallSeconds: 'timer' } as const;
  return byEngine
    ? { memoryMb: 'container each', pids: 'container each', cpus: 'container each', ...rest }
    : { memoryMb: 'watchdog', pids: 'watchdog', cpus: 'none', ...rest };
}

async function writtenTo(path: string, content: string): Promise<string> {
  await writeFile(path, content, { mode: 0o600 });
  return path;
}
