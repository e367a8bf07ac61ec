import { readlinkSync } from 'node:fs';

/** The protections that a test run inside a sandbox has seen. */
export interface EnforcedProtections {
  readonly noCapabilities: boolean;
  readonly noNewPrivileges: boolean;
  readonly seccomp: boolean;
  readonly noNetwork: boolean;
  readonly ownProcesses: boolean;
  /** Shared memory, semaphores and message queues. */
  readonly ownIpc: boolean;
  readonly ownHostname: boolean;
  readonly ownUsers: boolean;
  readonly readOnlySystem: boolean;
}

const namespaceKinds = ['ipc', 'net', 'pid', 'user', 'uts'] as const;

/** Prints what it finds. It reads only `/proc`, so a shell and two small programs are all it needs. */
export const probeScript = [
  'cat /proc/self/status /proc/net/dev',
  'echo "first: $(cat /proc/1/comm)"',
  `for kind in ${namespaceKinds.join(' ')}; do echo "$kind: $(readlink /proc/self/ns/$kind)"; done`,
  '(echo x > /usr/.ambit-probe) 2>/proc/self/fd/1 && echo "system: writable"',
  'echo finished',
].join('\n');

export function readProbe(said: string): EnforcedProtections | undefined {
  if (!/^finished$/m.test(said)) return undefined;
  const status = (name: string) => new RegExp(`^${name}:[ \\t]*(\\S+)$`, 'm').exec(said)?.[1];
  const interfaces = [...said.matchAll(/^[ \t]*([^\s:|]+):(?:[ \t]+\d+){16}$/gm)].map(([, name]) => name);
  const hasOwnNamespace = (kind: (typeof namespaceKinds)[number]) => {
    const inside = status(kind);
    return inside !== undefined && inside !== readlinkSync(`/proc/self/ns/${kind}`);
  };
  return {
    noCapabilities: [status('CapEff'), status('CapPrm'), status('CapBnd')].every((set) => /^0+$/.test(set ?? '')),
    noNewPrivileges: status('NoNewPrivs') === '1',
    seccomp: status('Seccomp') === '2',
    noNetwork: hasOwnNamespace('net') && interfaces.every((name) => name === 'lo'),
    ownProcesses: hasOwnNamespace('pid') && status('first') === 'bwrap',
    ownIpc: hasOwnNamespace('ipc'),
    ownHostname: hasOwnNamespace('uts'),
    ownUsers: hasOwnNamespace('user'),
    readOnlySystem: !/^system: writable$/m.test(said),
  };
}

/** The names of what should hold and does not. */
export function listMissingProtections(enforced: object): string[] {
  return Object.entries(enforced).flatMap(([name, holds]) => (holds ? [] : [name]));
}
