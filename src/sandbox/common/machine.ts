import { existsSync } from 'node:fs';
import { readText } from '../../lib/fs/if-present.ts';

/** The facts about this machine that decide which remedy helps. */
export interface Machine {
  readonly platform: NodeJS.Platform;
  readonly isRoot: boolean;
  /** Ubuntu's AppArmor keeps ordinary users from making user namespaces. */
  readonly appArmorRestricts: boolean;
  readonly userNamespacesOff: boolean;
  readonly noUserNamespacesLeft: boolean;
  readonly isContainer: boolean;
  readonly hasSystemd: boolean;
  /** The version of control groups that limits memory here. */
  readonly cgroups: 1 | 2 | undefined;
  /** The command that installs a package, without the package. */
  readonly install: string | undefined;
}

const installCommands = {
  'apt-get': 'apt-get install -y',
  dnf: 'dnf install -y',
  pacman: 'pacman -S --noconfirm',
  zypper: 'zypper install -y',
  apk: 'apk add',
};

export function inspectMachine(): Machine {
  const readSetting = (path: string) => readText(`/proc/sys/${path}`).trim();
  const tool = Object.entries(installCommands).find(([name]) =>
    ['/usr/bin', '/sbin'].some((at) => existsSync(`${at}/${name}`)),
  );
  return {
    platform: process.platform,
    isRoot: process.getuid?.() === 0,
    appArmorRestricts: readSetting('kernel/apparmor_restrict_unprivileged_userns') === '1',
    userNamespacesOff: readSetting('kernel/unprivileged_userns_clone') === '0',
    noUserNamespacesLeft: readSetting('user/max_user_namespaces') === '0',
    isContainer:
      existsSync('/.dockerenv') || existsSync('/run/.containerenv') || process.env['container'] !== undefined,
    hasSystemd: existsSync('/run/systemd/system'),
    cgroups: existsSync('/sys/fs/cgroup/cgroup.controllers') ? 2 : existsSync('/sys/fs/cgroup/memory') ? 1 : undefined,
    install: tool?.[1],
  };
}

/** The command that installs a package, with sudo where it is needed. */
export function installCommand({ install, isRoot }: Machine, name: string): string {
  return install === undefined ? `Install the package ${name}` : `${asRoot(`${install} ${name}`, isRoot)}`;
}

export function asRoot(command: string, isRoot: boolean): string {
  return isRoot ? command : `sudo ${command}`;
}
