import { readlinkSync } from 'node:fs';
import { text } from 'node:stream/consumers';
import type { ProbeResult, ProcessLaunch, RunningProcess } from '../runner.ts';
import type { Confinement, Mount } from './confinement.ts';
import type { ServerFiles } from './server-files.ts';

const probeLimits = { memoryMb: 512, pids: 64, cpus: 1, fileMb: 64, openFiles: 256, wallSeconds: 60 };
const namespaceKinds = ['ipc', 'net', 'pid', 'user', 'uts'] as const;

/** Prints its findings. It reads only `/proc`, so a shell and two small programs are enough. */
export const probeScript = [
  'cat /proc/self/status /proc/net/dev',
  'echo "first: $(cat /proc/1/comm)"',
  `for kind in ${namespaceKinds.join(' ')}; do echo "$kind: $(readlink /proc/self/ns/$kind)"; done`,
  '(echo x > /usr/.ambit-probe) 2>/proc/self/fd/1 && echo "system: writable"',
  'echo finished',
].join('\n');

/** The launch of a shell that runs a probe script, with nothing but its home. */
export function createProbe(script: string, tmpDir: string, home: Mount): [ProcessLaunch, Confinement, ServerFiles] {
  return [
    { command: '/bin/sh', args: ['-c', script], env: {}, cwd: tmpDir, tmpDir },
    { home, readable: [], writable: [], hidden: [], limits: probeLimits },
    { program: '/bin/sh', mounts: [], links: [], searched: [] },
  ];
}

/** Runs a probe to its end, or to the time limit, and returns its output and its errors. */
export async function readProbeOutput(running: RunningProcess, limitMs: number): Promise<[string, string]> {
  const limit = setTimeout(() => void running.end(), limitMs).unref();
  running.stdin.end();
  const [output, errors] = await Promise.all([text(running.stdout), text(running.stderr), running.exited]);
  clearTimeout(limit);
  return [output, errors];
}

/** Reads what holds inside. `firstProcess` is the name of the process with id 1 there. */
export function readProbe(said: string, firstProcess: string): ProbeResult['enforced'] | undefined {
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
    ownProcesses: hasOwnNamespace('pid') && status('first') === firstProcess,
    // Shared memory, semaphores and message queues.
    ownIpc: hasOwnNamespace('ipc'),
    ownHostname: hasOwnNamespace('uts'),
    ownUsers: hasOwnNamespace('user'),
    readOnlySystem: !/^system: writable$/m.test(said),
  };
}

export function listMissingProtections(enforced: ProbeResult['enforced']): string[] {
  return Object.entries(enforced).flatMap(([name, holds]) => (holds ? [] : [name]));
}
