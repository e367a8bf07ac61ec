import { installing, type Machine } from '../common/machine.ts';
import type { Limits, Means } from './limits.ts';

/** What would bound this better here; undefined where the kernel does it, or nothing can be done. */
export function remedyForLimit(limit: keyof Limits, means: Means, machine: Machine): string | undefined {
  if (means === 'none') return installing(machine, 'util-linux');
  if (means !== 'watchdog' && means !== 'priority' && means !== 'rlimit each') return undefined;
  if (machine.platform !== 'linux') return undefined;
  if (machine.isContainer) {
    return 'docker run --cgroupns=private -v /sys/fs/cgroup:/sys/fs/cgroup:rw …, with Ambit as the only program inside';
  }
  if (machine.cgroups === 2 && machine.hasSystemd) {
    return machine.isRoot
      ? 'Run Ambit as a service with "Delegate=yes"'
      : 'Log in with a systemd user session: sudo loginctl enable-linger "$USER"';
  }
  if (machine.cgroups === 1 && !machine.isRoot) {
    return 'Boot with systemd.unified_cgroup_hierarchy=1, or run Ambit as root: version 1 of control groups is for root only';
  }
  return `Mount control groups with the controller "${limit === 'cpus' ? 'cpu' : limit === 'pids' ? 'pids' : 'memory'}"`;
}
