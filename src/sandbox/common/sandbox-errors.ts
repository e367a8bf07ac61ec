import { AmbitError } from '../../errors.ts';
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
