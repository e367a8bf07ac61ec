import { readFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { sandboxUser } from '../bwrap/bwrap-arguments.ts';
import { type Mounts, mountsInOrder } from '../bwrap/mounts.ts';
import type { ResourceLimits } from '../limits/limits.ts';
import { parseHardLimit } from '../limits/rlimits.ts';
import type { Engine } from './engine.ts';
import type { ContainerUser } from './local-image.ts';

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
