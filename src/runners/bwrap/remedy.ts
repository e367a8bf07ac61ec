import { existsSync, readFileSync } from 'node:fs';
import { AmbitError } from '../../errors.ts';

const restriction = '/proc/sys/kernel/apparmor_restrict_unprivileged_userns';
const cloneSwitch = '/proc/sys/kernel/unprivileged_userns_clone';
const mostNamespaces = '/proc/sys/user/max_user_namespaces';

/** No sandbox on this machine: why, and what mends it here. */
export function unavailable(why: string, hint: string, cause?: unknown): AmbitError {
  return new AmbitError('SANDBOX_UNAVAILABLE', {
    what: `The session is sandboxed, and no sandbox can be had here: ${why}.`,
    hint,
    rule: 'trust',
    cause,
  });
}

export function missing(platform: NodeJS.Platform): AmbitError {
  if (platform !== 'linux') {
    return unavailable(
      'on this system there is none yet',
      'Run Ambit on Linux, or use a direct session where the operator allows that.',
    );
  }
  return unavailable(
    '"bwrap" is not on the PATH of Ambit',
    `Install bubblewrap 0.8 or newer (${installCommand()}); the next call finds it.`,
  );
}

/** What bwrap said, turned into what to do about it. */
export function cannotStart(said: string): AmbitError {
  // Callers are told no path of this machine.
  const words = (said.trim().split('\n').at(-1) ?? '').replace(/\/\S+/g, '…').slice(0, 300);
  return unavailable(words === '' ? 'bwrap does not work' : words, remedyFor(words));
}

function remedyFor(words: string): string {
  if (/Unknown option/i.test(words)) return 'Install bubblewrap 0.8 or newer; this one is too old.';
  if (read(restriction) === '1' && process.getuid?.() !== 0) {
    return 'Ubuntu\'s AppArmor keeps programs from making user namespaces: install the package apparmor-profiles and put its profile bwrap-userns-restrict into /etc/apparmor.d, then load it with "apparmor_parser -r".';
  }
  if (read(cloneSwitch) === '0' && process.getuid?.() !== 0) {
    return 'Allow user namespaces with "sysctl -w kernel.unprivileged_userns_clone=1".';
  }
  if (read(mostNamespaces) === '0') return 'Allow user namespaces with "sysctl -w user.max_user_namespaces=15000".';
  if (isContainer()) {
    return 'Ambit runs in a container, which keeps it from making namespaces: run it on the host, or start the container with "--security-opt seccomp=unconfined --security-opt apparmor=unconfined --security-opt systempaths=unconfined".';
  }
  return 'Start "bwrap --unshare-all --ro-bind / / true" by hand to see more.';
}

function isContainer(): boolean {
  return existsSync('/.dockerenv') || existsSync('/run/.containerenv') || process.env['container'] !== undefined;
}

function installCommand(): string {
  const tools = {
    'apt-get': 'apt-get install',
    dnf: 'dnf install',
    pacman: 'pacman -S',
    zypper: 'zypper install',
    apk: 'apk add',
  };
  for (const [tool, command] of Object.entries(tools)) {
    if (existsSync(`/usr/bin/${tool}`) || existsSync(`/sbin/${tool}`)) return `${command} bubblewrap`;
  }
  return 'package bubblewrap';
}

function read(path: string): string | undefined {
  try {
    return readFileSync(path, 'latin1').trim();
  } catch {
    return undefined;
  }
}
