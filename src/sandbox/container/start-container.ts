import { createHash } from 'node:crypto';
import { existsSync, lstatSync, readFileSync, readlinkSync } from 'node:fs';
import { rm, writeFile } from 'node:fs/promises';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { etcNames, hostsFile, sandboxEnvironment, sandboxUser, tmpFolder } from '../bwrap/bwrap-arguments.ts';
import { type Mounts, mountsInOrder, verifyMounts } from '../bwrap/mounts.ts';
import { type Confinement, volumeFolder } from '../common/confinement.ts';
import { imageMissing } from '../common/sandbox-errors.ts';
import type { ServerFiles } from '../common/server-files.ts';
import { type LinkCopy, systemFolders } from '../common/visibility-filter.ts';
import type { Bounds } from '../limits/limiter.ts';
import type { ResourceLimits } from '../limits/limits.ts';
import { parseHardLimit } from '../limits/rlimits.ts';
import { registerWriter, waitForSetups } from '../processes/pause-writers.ts';
import { type StartedChild, spawnTracked } from '../processes/supervise.ts';
import type { Reaper } from '../reaper/reaper.ts';
import type { ProcessLaunch } from '../runner.ts';
import { type Engine, EngineError, runEngine } from './engine.ts';

/** An entry of a small archive; folders and links have no content. */
type TarEntry =
  | { readonly name: string; readonly kind: 'folder'; readonly owner?: ContainerUser }
  | { readonly name: string; readonly kind: 'file'; readonly content: string }
  | { readonly name: string; readonly kind: 'link'; readonly target: string };

const blockBytes = 512;

const kindCodes = { file: '0', link: '2', folder: '5' } as const;

const formatOctal = (value: number, digits: number): string => value.toString(8).padStart(digits, '0');

interface ContainerUser {
  readonly uid: number;
  readonly gid: number;
}

const systemPaths = [...systemFolders, ...etcNames.map((name) => `/etc/${name}`)];

/** Lists the paths of this machine that are mounted into the image, read-only. */
function listSystemMounts(): string[] {
  return systemPaths.filter((path) => existsSync(path) && !lstatSync(path).isSymbolicLink());
}

/**
 * Builds an image without programs: mount points for this machine's system, the links between them, and the user. It
 * has a few kilobytes, needs no registry, and is named by its content.
 */
export function buildLocalImage(
  { uid, gid }: ContainerUser,
  links: readonly LinkCopy[],
): { name: string; content: Buffer } {
  const ofSystem = systemPaths.flatMap((path): LinkCopy[] => {
    const isLink = lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink() === true;
    return isLink ? [{ inside: path, target: readlinkSync(path) }] : [];
  });
  const linked = [...ofSystem, ...links].map(({ inside, target }): TarEntry => {
    return { name: inside.slice(1), kind: 'link', target };
  });
  const file = (name: string, content: string): TarEntry => ({ name, kind: 'file', content });
  const content = createTar([
    ...['dev', 'etc', 'proc', 'run', 'sys', 'tmp'].map((name): TarEntry => ({ name: `${name}/`, kind: 'folder' })),
    { name: `${volumeFolder.slice(1)}/`, kind: 'folder', owner: { uid, gid } },
    file('etc/passwd', `${sandboxUser.name}:x:${uid}:${gid}::${sandboxUser.home}:/bin/sh\n`),
    file('etc/group', `${sandboxUser.name}:x:${gid}:\n`),
    file('etc/hosts', hostsFile),
    ...linked,
  ]);
  const digest = createHash('sha256').update(content).digest('hex').slice(0, 16);
  return { name: `localhost/ambit-local:${digest}`, content };
}

/** Makes the image unless the engine has it already. */
export async function ensureImage(engine: Engine, { name, content }: { name: string; content: Buffer }): Promise<void> {
  if (await hasImage(engine, name)) return;
  await runEngine(engine, ['import', '-', name], { input: content });
}

async function hasImage(engine: Engine, name: string): Promise<boolean> {
  return runEngine(engine, ['image', 'inspect', '--format', '{{.Id}}', name]).then(
    () => true,
    () => false,
  );
}

/**
 * The user of a container's program, so that it owns in the workspace what Ambit owns. For podman without root, the
 * root user inside is the account of Ambit and has no other rights.
 */
function resolveContainerUser(engine: Engine): ContainerUser {
  const [uid, gid] = [process.getuid?.() ?? 0, process.getgid?.() ?? 0];
  return engine.kind === 'podman' && uid !== 0 ? { uid: 0, gid: 0 } : { uid, gid };
}

/** Creates a tar file, with the same bytes for the same entries. Throws for a name that is too long. */
function createTar(entries: readonly TarEntry[]): Buffer {
  return Buffer.concat([...entries.flatMap(createTarBlocks), Buffer.alloc(2 * blockBytes)]);
}

function createTarBlocks(entry: TarEntry): Buffer[] {
  const content = Buffer.from(entry.kind === 'file' ? entry.content : '');
  const header = Buffer.alloc(blockBytes);
  writeField(header, entry.name, 0, 100);
  writeField(header, entry.kind === 'folder' ? '0000755' : '0000644', 100, 8);
  const { uid, gid } = (entry.kind === 'folder' ? entry.owner : undefined) ?? { uid: 0, gid: 0 };
  writeField(header, formatOctal(uid, 7), 108, 8);
  writeField(header, formatOctal(gid, 7), 116, 8);
  writeField(header, formatOctal(content.length, 11), 124, 12);
  writeField(header, '00000000000', 136, 12);
  writeField(header, '        ', 148, 8);
  writeField(header, kindCodes[entry.kind], 156, 1);
  if (entry.kind === 'link') writeField(header, entry.target, 157, 100);
  writeField(header, 'ustar\u000000', 257, 8);
  const sum = header.reduce((total, byte) => total + byte, 0);
  writeField(header, `${formatOctal(sum, 6)}\0 `, 148, 8);
  return [header, content, Buffer.alloc((blockBytes - (content.length % blockBytes)) % blockBytes)];
}

function writeField(header: Buffer, text: string, at: number, room: number): void {
  const bytes = Buffer.from(text);
  if (bytes.length > room) throw new Error(`This is too long for a container: ${text}`);
  bytes.copy(header, at);
}

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

interface ContainerRequest {
  readonly name: string;
  readonly image: string;
  /** Whether the image is our own, made of this machine's system; others have their own programs and variables. */
  readonly isLocal: boolean;
  readonly program: readonly [string, ...string[]];
  readonly account: ContainerUser;
  readonly labels: readonly string[];
  readonly limits: ResourceLimits;
  /** Whether the engine enforces the limits; otherwise the watchdog does. */
  readonly limitsByEngine: boolean;
  readonly seccompFile: string;
  readonly envFile: string;
  readonly system: readonly string[];
  readonly mounts: Pick<Mounts, 'entries' | 'guarded'>;
  readonly workFolder: string;
  /** A volume that is mounted at the working folder. */
  readonly volume?: string | undefined;
}

const tmpMb = 64;
const homeMb = 16;

/** The arguments that create a container. The environment comes in a file: every user can read a command line. */
export function createArguments(engine: Engine, wanted: ContainerRequest): string[] {
  const { mounts, account, program } = wanted;
  const [entry, ...args] = program;
  if (entry.startsWith('[')) throw new Error(`A container engine would read this as a list: ${entry}`);
  return [
    ...['create', '--interactive', '--rm', '--name', wanted.name, '--pull', 'never'],
    ...wanted.labels.flatMap((label) => ['--label', label]),
    ...['--network', 'none', '--ipc', 'none', '--hostname', 'sandbox', '--read-only', '--cap-drop', 'ALL'],
    ...['--security-opt', 'no-new-privileges', '--security-opt', `seccomp=${wanted.seccompFile}`],
    // SELinux labels would block the mounts, or would have to be written to people's files.
    ...['--security-opt', 'label=disable', '--user', `${account.uid}:${account.gid}`],
    ...['--tmpfs', `/tmp:rw,exec,nosuid,nodev,mode=1777,size=${tmpMb}m`],
    ...['--tmpfs', `${sandboxUser.home}:rw,exec,nosuid,nodev,mode=1777,size=${homeMb}m`],
    ...limitArguments(wanted.limits, wanted.limitsByEngine),
    ...wanted.system.flatMap((path) => mountArguments(path, path, false)),
    ...mountsInOrder(mounts).flatMap(({ pinned, writable }) => mountArguments(pinned.source, pinned.target, writable)),
    ...(wanted.volume === undefined ? [] : volumeArguments(wanted.volume, wanted.workFolder)),
    ...['--log-driver', 'none', '--no-healthcheck', '--workdir', wanted.workFolder, '--env-file', wanted.envFile],
    ...(engine.kind === 'podman' ? podmanArguments(wanted) : []),
    ...['--entrypoint', entry, wanted.image, ...args],
  ];
}

/** Switches off podman's additions: writable folders, variables of the host, its own variables. */
function podmanArguments({ isLocal }: ContainerRequest): string[] {
  return [
    ...['--read-only-tmpfs=false', '--image-volume', 'ignore', '--no-hosts', '--http-proxy=false'],
    ...['--security-opt', `mask=${maskedPaths.join(':')}`],
    ...(isLocal ? ['--unsetenv-all'] : ['--unsetenv', 'container', '--unsetenv', 'TERM']),
  ];
}

/** Paths that reveal the machine and other users, or that root could write even without capabilities. */
const maskedPaths = ['/sys', '/proc/cmdline', '/proc/key-users', '/proc/kmsg', '/proc/mtrr', '/proc/pressure'].concat(
  ...['/proc/slabinfo', '/proc/vmallocinfo'],
);

function limitArguments(limits: ResourceLimits, byEngine: boolean): string[] {
  const own = readFileSync('/proc/self/limits', 'latin1');
  const capAtHardLimit = (name: string, wanted: number) => Math.min(wanted, parseHardLimit(own, name));
  const ulimit = (name: string, value: number) => ['--ulimit', `${name}=${value}:${value}`];
  return [
    ...ulimit('core', 0),
    ...ulimit('nofile', capAtHardLimit('Max open files', limits.openFiles)),
    ...ulimit('fsize', capAtHardLimit('Max file size', limits.fileMb * 1024 * 1024)),
    // By default, engines ask for more than Ambit may have. It limits all processes of the account together.
    ...ulimit('nproc', capAtHardLimit('Max processes', 1 << 14)),
    ...(byEngine
      ? [
          ...['--memory', `${limits.memoryMb}m`, '--memory-swap', `${limits.memoryMb}m`],
          ...['--pids-limit', String(limits.pids), '--cpus', String(Math.min(limits.cpus, availableParallelism()))],
        ]
      : []),
  ];
}

/** A read-only mount leaves out mounts below it: they would stay writable. */
function mountArguments(from: string, to: string, writable: boolean): string[] {
  for (const path of [from, to]) {
    if (/[,"\n\r]/.test(path))
      throw new Error(`A path with a comma or a quote cannot be mounted in a container: ${path}`);
  }
  const manner = writable ? '' : ',readonly,bind-nonrecursive';
  return ['--mount', `type=bind,source=${from},destination=${to},bind-propagation=rprivate${manner}`];
}

const volumeName = /^ambit-[a-z0-9][a-z0-9._-]{0,100}$/;

/**
 * Mounts a volume. Engines make a missing one. Unlike a container it stays: it holds somebody's work, so nothing here
 * ever removes one.
 */
function volumeArguments(name: string, to: string): string[] {
  if (!volumeName.test(name)) throw new Error(`Not the name of a volume of Ambit: ${name}`);
  return ['--mount', `type=volume,source=${name},destination=${to}`];
}

/** Writes one line for each variable. Throws for a value that a line cannot hold. */
export function formatEnvironment(env: Readonly<Record<string, string>>): string {
  return Object.entries(env)
    .map(([name, value]) => {
      if (/[\n\r\0]/.test(value) || !/^[A-Za-z_][A-Za-z0-9_.-]*$/.test(name))
        throw new Error(
          `The variable "${name}" cannot be passed to a container: it contains a line break or has an invalid name.`,
        );
      return `${name}=${value}\n`;
    })
    .join('');
}
