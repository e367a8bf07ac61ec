import { AmbitError } from '../../errors.ts';
import type { ProcessLaunch } from '../runner.ts';
import type { Confinement } from './confinement.ts';
import { asRoot, inspectMachine, installCommand, type Machine } from './machine.ts';

/** The error for a machine without a sandbox, with the reason and the remedy. */
export function sandboxUnavailable(why: string, hint: string, cause?: unknown): AmbitError {
  return new AmbitError('SANDBOX_UNAVAILABLE', {
    what: `The session is sandboxed, and no sandbox can be had here: ${why}.`,
    hint,
    rule: 'trust',
    cause,
  });
}

export function bwrapMissing(machine = inspectMachine()): AmbitError {
  if (machine.platform !== 'linux') {
    return sandboxUnavailable(
      'on this system there is none yet',
      'Run Ambit on Linux, or use a direct session where the operator allows that.',
    );
  }
  return sandboxUnavailable(
    '"bwrap" is not on the PATH of Ambit',
    `Install bubblewrap 0.8 or newer; the next call finds it: ${installCommand(machine, 'bubblewrap')}`,
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
    return `Install bubblewrap 0.8 or newer; this one is too old: ${installCommand(machine, 'bubblewrap')}`;
  }
  // A container cannot change kernel settings; its start options decide.
  if (machine.isContainer) {
    return 'Ambit runs in a container, which keeps it from making namespaces: run it on the host, or start the container with: docker run --security-opt seccomp=unconfined --security-opt apparmor=unconfined --security-opt systempaths=unconfined …';
  }
  if (machine.appArmorRestricts && !isRoot) {
    const profile = 'bwrap-userns-restrict';
    const steps = [
      installCommand(machine, 'apparmor-profiles'),
      asRoot(`cp /usr/share/apparmor/extra-profiles/${profile} /etc/apparmor.d/`, isRoot),
      asRoot(`apparmor_parser -r /etc/apparmor.d/${profile}`, isRoot),
    ];
    return `AppArmor keeps programs from making user namespaces; the profile for bwrap allows it: ${steps.join(' && ')}`;
  }
  if (machine.userNamespacesOff && !isRoot) {
    return `Allow user namespaces: ${asRoot('sysctl -w kernel.unprivileged_userns_clone=1', isRoot)}`;
  }
  if (machine.noUserNamespacesLeft) {
    return `Allow user namespaces: ${asRoot('sysctl -w user.max_user_namespaces=15000', isRoot)}`;
  }
  return 'See more by hand: bwrap --unshare-all --ro-bind / / true';
}

/** The error for writers that do not pause: they could disturb the mounts in their workspace. */
export function writersNotPaused(cause: unknown): AmbitError {
  return sandboxUnavailable(
    'another server that may write to the same folder does not stand still while this one is set up',
    'Try again. If it happens again, look which server of the workspace starts processes without end, and close its session.',
    cause,
  );
}

/** Refuses a server that was granted hosts where no proxy can be reached from inside. */
export function refuseHosts({ egressProxy }: ProcessLaunch): void {
  if (egressProxy === undefined) return;
  throw sandboxUnavailable(
    'hosts (sandbox.network) cannot be reached from this sandbox yet',
    'Leave out sandbox.network for this server, or run Ambit where bubblewrap works.',
  );
}

/** Refuses a volume: only a container engine can mount one. */
export function refuseVolume({ volume }: Confinement): void {
  if (volume === undefined) return;
  throw sandboxUnavailable('the files of the workspace are kept by a container engine', 'Install podman or docker.');
}
