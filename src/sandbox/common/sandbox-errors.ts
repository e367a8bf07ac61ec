import { basename } from 'node:path';
import { AmbitError } from '../../errors.ts';
import type { Engine } from '../container/engine.ts';
import type { ProcessLaunch } from '../runner.ts';
import type { Confinement } from './confinement.ts';
import { asRoot, inspectMachine, installCommand, type Machine } from './machine.ts';

const noSandbox = 'The session is sandboxed, and no sandbox is available: ';

/** The error for a machine without a sandbox, with the reason and the remedy. */
export function sandboxUnavailable(why: string, hint: string, cause?: unknown): AmbitError {
  return new AmbitError('SANDBOX_UNAVAILABLE', {
    what: `${noSandbox}${why}.`,
    hint,
    rule: 'trust',
    cause,
  });
}

/** Returns only the reason of such an error, for sentences that are not about a session. */
export function extractSandboxProblem({ message }: Error): string {
  return message.startsWith(noSandbox) ? message.slice(noSandbox.length) : message;
}

export function bwrapMissing(machine = inspectMachine()): AmbitError {
  if (machine.platform !== 'linux') {
    return sandboxUnavailable(
      'this operating system is not supported yet',
      'Run Ambit on Linux, or use a direct session if the operator allows it.',
    );
  }
  return sandboxUnavailable(
    '"bwrap" was not found on the PATH',
    `Install bubblewrap 0.8 or newer (no restart needed): ${installCommand(machine, 'bubblewrap')}`,
  );
}

/** Turns the message of bwrap into an error with a remedy. */
export function bwrapFailed(said: string, machine = inspectMachine()): AmbitError {
  // Callers see no path of this machine.
  const words = (said.trim().split('\n').at(-1) ?? '').replace(/\/\S+/g, '…').slice(0, 300);
  return sandboxUnavailable(words === '' ? 'bwrap does not work' : words, bwrapRemedy(words, machine));
}

function bwrapRemedy(words: string, machine: Machine): string {
  const { isRoot } = machine;
  if (/Unknown option/i.test(words)) {
    return `Install bubblewrap 0.8 or newer, the installed version is too old: ${installCommand(machine, 'bubblewrap')}`;
  }
  // A container cannot change kernel settings; its start options decide.
  if (machine.isContainer) {
    return 'Ambit runs in a container that does not allow namespaces. Run it on the host, or start the container with: docker run --security-opt seccomp=unconfined --security-opt apparmor=unconfined --security-opt systempaths=unconfined …';
  }
  if (machine.appArmorRestricts && !isRoot) {
    const profile = 'bwrap-userns-restrict';
    const steps = [
      installCommand(machine, 'apparmor-profiles'),
      asRoot(`cp /usr/share/apparmor/extra-profiles/${profile} /etc/apparmor.d/`, isRoot),
      asRoot(`apparmor_parser -r /etc/apparmor.d/${profile}`, isRoot),
    ];
    return `AppArmor does not allow user namespaces. Install the profile that allows them for bwrap: ${steps.join(' && ')}`;
  }
  if (machine.userNamespacesOff && !isRoot) {
    return `Allow user namespaces: ${asRoot('sysctl -w kernel.unprivileged_userns_clone=1', isRoot)}`;
  }
  if (machine.noUserNamespacesLeft) {
    return `Allow user namespaces: ${asRoot('sysctl -w user.max_user_namespaces=15000', isRoot)}`;
  }
  return 'To see more, run: bwrap --unshare-all --ro-bind / / true';
}

export function engineMissing(): AmbitError {
  if (process.platform !== 'linux') {
    return sandboxUnavailable('containers are only supported on Linux', 'Run Ambit on Linux.');
  }
  return sandboxUnavailable(
    'neither "podman" nor "docker" was found on the PATH',
    `Install podman (no restart needed): ${installCommand(inspectMachine(), 'podman')}`,
  );
}

/** Turns the message of an engine into an error with a remedy. */
export function engineFailed(engine: Engine, said: string): AmbitError {
  // Callers see no path of this machine.
  const words = said.replace(/\/\S+/g, '…').slice(0, 300);
  return sandboxUnavailable(`${engine.kind} does not run containers (${words})`, suggestEngineRemedy(engine, said));
}

export function imageMissing(engine: Engine, image: string): AmbitError {
  return sandboxUnavailable(
    `the image "${image}" is not on this machine`,
    `The operator can download it with "${engine.kind} pull ${image}"; Ambit does not download images.`,
  );
}

/** Whether an engine reports that the first program of a container does not exist. */
export const isProgramMissing = (said: string): boolean =>
  /executable file .*not found|exec: "[^"]*": stat .*no such file/i.test(said.slice(0, 2000));

export function programMissing(
  image: string,
  { program, before }: { program: string; before?: readonly string[] },
): AmbitError {
  if (before === undefined) {
    return sandboxUnavailable(
      `the image "${image}" does not have the program "${basename(program)}"`,
      'The operator can use a program of the image as the command, or another image.',
    );
  }
  return sandboxUnavailable(
    `a server in the image "${image}" has no network access (sandbox.network), because that needs "node" in the image`,
    'The operator can use an image with Node, or remove sandbox.network or sandbox.image for this server.',
  );
}

function suggestEngineRemedy(engine: Engine, said: string): string {
  if (/hybrid/i.test(said)) {
    const install = installCommand(inspectMachine(), 'runc');
    return `Install runc, which supports both versions of control groups: ${install}`;
  }
  if (/cannot connect to the docker daemon|docker\.sock/i.test(said)) {
    return 'Start the Docker daemon and give the account that runs Ambit access to it, or install podman, which needs no daemon.';
  }
  if (/newuidmap|subuid/i.test(said))
    return 'Add lines for the account that runs Ambit to /etc/subuid and /etc/subgid.';
  return `Run "${engine.kind} run --rm hello-world" by hand to see more.`;
}

/** The error for writers that do not pause: they could disturb the mounts in their workspace. */
export function writersNotPaused(cause: unknown): AmbitError {
  return sandboxUnavailable(
    'another server that can write to the same folder could not be paused while this one was set up',
    'Try again. If it happens again, find the server of the workspace that keeps starting processes, and end its session.',
    cause,
  );
}

/** Refuses a server that was granted hosts where no proxy can be reached from inside. */
export function refuseHosts({ egressProxy }: ProcessLaunch): void {
  if (egressProxy === undefined) return;
  throw sandboxUnavailable(
    'this sandbox does not support network access (sandbox.network) yet',
    'Leave out sandbox.network for this server, or run Ambit where bubblewrap works.',
  );
}

/** Refuses a volume: only a container engine can mount one. */
export function refuseVolume({ volume }: Confinement): void {
  if (volume === undefined) return;
  throw sandboxUnavailable('the files of the workspace are stored by a container engine', 'Install podman or docker.');
}
