import { rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { sandboxEnvironment, sandboxUser, tmpFolder } from '../bwrap/bwrap-arguments.ts';
import type { Mounts } from '../bwrap/mounts.ts';
import { verifyMounts } from '../bwrap/verify-mounts.ts';
import type { Confinement } from '../common/confinement.ts';
import { imageMissing } from '../common/sandbox-errors.ts';
import type { ServerFiles } from '../common/server-files.ts';
import type { Bounds } from '../limits/limiter.ts';
import { registerWriter, waitForSetups } from '../processes/pause-writers.ts';
import { type StartedChild, spawnTracked } from '../processes/supervise.ts';
import type { Reaper } from '../reaper/reaper.ts';
import type { ProcessLaunch } from '../runner.ts';
import { createArguments, formatEnvironment } from './create-arguments.ts';
import { type Engine, EngineError, runEngine } from './engine.ts';
import { buildLocalImage, type ensureImage, hasImage, listSystemMounts, resolveContainerUser } from './local-image.ts';

/** An engine and the way it runs containers on this machine. */
export interface EngineSetup {
  readonly engine: Engine;
  /** Flags of the engine that come before the command. */
  readonly globalFlags: readonly string[];
  readonly limitsByEngine: boolean;
  /** Whether containers join a control group of Ambit, which limits those of one owner together. */
  readonly joinsGroup: boolean;
}

export interface StartRequest {
  readonly setup: EngineSetup;
  readonly name: string;
  readonly launch: ProcessLaunch;
  readonly confinement: Confinement;
  readonly files: ServerFiles;
  readonly mounts: Mounts;
  readonly labels: readonly string[];
  readonly seccompFile: string;
  readonly bounds: Bounds;
  /** Makes an image unless the engine has it. */
  readonly ensureImage: typeof ensureImage;
}

export interface StartedContainer {
  readonly child: StartedChild;
  /** The pid of the first process inside, on the host. */
  readonly first: number;
  /** Whether the engine says that it ignores limits. */
  readonly ignoresLimits: boolean;
}

const pauseMs = 20;
const maxStartAttempts = 100;

/** Creates the container, verifies its mounts and starts it. After a failure the caller removes it by its note. */
export async function startContainer(wanted: StartRequest, reaper: Reaper): Promise<StartedContainer> {
  const { setup, name, launch, confinement, files } = wanted;
  const { engine, globalFlags } = setup;
  const { image } = confinement;
  const { tmpDir } = launch;
  const inside = resolveContainerUser(engine);
  if (image !== undefined && !(await hasImage(engine, image))) throw imageMissing(engine, image);
  const local = buildLocalImage(inside, wanted.mounts.links);
  if (image === undefined) await wanted.ensureImage(engine, local);
  // An engine opens the file by name, so it cannot be a pipe.
  const envFile = join(tmpDir, 'env');
  const args = createArguments(engine, {
    name,
    image: image ?? local.name,
    isLocal: image === undefined,
    program: [...(files.before ?? []), files.program, ...launch.args] as [string, ...string[]],
    account: inside,
    labels: wanted.labels,
    limits: confinement.limits,
    limitsByEngine: setup.limitsByEngine,
    seccompFile: wanted.seccompFile,
    envFile,
    system: image === undefined ? listSystemMounts() : [],
    mounts: wanted.mounts,
    workFolder: confinement.home.target,
    volume: confinement.volume,
  });
  await writeFile(envFile, formatEnvironment(serverEnvironment(launch, confinement, files)), {
    mode: 0o600,
    flag: 'wx',
  });
  const { stderr } = await runEngine(engine, [...globalFlags, ...args], { tmpDir }).finally(() =>
    rm(envFile, { force: true }),
  );
  const run = async () => {
    launch.beforeSpawn?.();
    // Podman must not read detach keys from the input of a server.
    const plain = engine.kind === 'podman' ? ['--detach-keys', ''] : [];
    const start = [...globalFlags, 'start', ...plain, '--attach', '--interactive', name];
    const env = { ...engine.env, TMPDIR: tmpDir };
    return spawnTracked({ command: engine.path, args: start, env, cwd: '/', stdio: 'pipe', tmpDir }, reaper);
  };
  const ignoresLimits = /limits are not supported|limitation discarded/i.test(stderr);
  const writable = wanted.mounts.entries.flatMap(({ pinned, writable }) => (writable ? [pinned.source] : []));
  if (engine.kind === 'podman') {
    await runEngine(engine, [...globalFlags, 'init', name], { tmpDir });
    const first = await findFirstProcess(engine, name, tmpDir, 1);
    verifyMounts(first, wanted.mounts);
    // The process waits to become the server, and has started nothing yet.
    await wanted.bounds.admit(first).catch((error: Error) => {
      throw new EngineError(`a container cannot be added to a control group: ${error.message}`, { cause: error });
    });
    await waitForSetups(writable);
    const mayBeGone = registerWriter(first, writable);
    const child = await run();
    child.once('exit', mayBeGone);
    return { child, first, ignoresLimits };
  }
  // Docker has no state between created and running, so wrong mounts are found a moment after the start.
  const child = await run();
  try {
    const first = await findFirstProcess(engine, name, tmpDir, maxStartAttempts);
    verifyMounts(first, wanted.mounts);
    child.once('exit', registerWriter(first, writable));
    await wanted.bounds.admit(first);
    return { child, first, ignoresLimits };
  } catch (error) {
    child.kill('SIGKILL');
    void reaper.release(child.pid, tmpDir);
    throw error;
  }
}

/** The environment in a container. Variables of an image stay unless they are set here. */
function serverEnvironment(
  launch: ProcessLaunch,
  { image, home }: Confinement,
  files: ServerFiles,
): Record<string, string> {
  const workFolder = { PWD: home.target };
  if (image === undefined) return { ...workFolder, ...sandboxEnvironment(launch.env, files.searched) };
  return { ...workFolder, HOME: sandboxUser.home, LANG: 'C.UTF-8', ...launch.env, TMPDIR: tmpFolder };
}

async function findFirstProcess(engine: Engine, name: string, tmpDir: string, attempts: number): Promise<number> {
  for (let attempt = 1; ; attempt++) {
    const { stdout } = await runEngine(engine, ['container', 'inspect', '--format', '{{.State.Pid}}', name], {
      tmpDir,
    });
    const pid = Number(stdout.trim());
    if (pid > 1) return pid;
    if (attempt === attempts) throw new EngineError('the container did not start');
    await delay(pauseMs);
  }
}
