/** What was seen from inside a sandbox that was started for this. */
export interface Enforced {
  readonly noCapabilities: boolean;
  readonly noNewPrivileges: boolean;
  readonly seccomp: boolean;
  readonly noNetwork: boolean;
  readonly ownProcesses: boolean;
  readonly readOnlySystem: boolean;
}

/** Says what it finds; `/proc` alone is asked, so that a shell is all it needs. */
export const probeScript = [
  'cat /proc/self/status /proc/net/dev',
  'echo "first: $(cat /proc/1/comm)"',
  '(echo x > /usr/.ambit-probe) 2>/proc/self/fd/1 && echo "system: writable"',
  'echo finished',
].join('\n');

export function readProbe(said: string): Enforced | undefined {
  if (!/^finished$/m.test(said)) return undefined;
  const status = (name: string) => new RegExp(`^${name}:\\s*(\\S+)$`, 'm').exec(said)?.[1];
  const interfaces = [...said.matchAll(/^\s*([^\s:|]+):(?:\s+\d+){16}$/gm)].map(([, name]) => name);
  return {
    noCapabilities: [status('CapEff'), status('CapPrm'), status('CapBnd')].every((set) => /^0+$/.test(set ?? '')),
    noNewPrivileges: status('NoNewPrivs') === '1',
    seccomp: status('Seccomp') === '2',
    noNetwork: interfaces.every((name) => name === 'lo'),
    ownProcesses: status('first') === 'bwrap',
    readOnlySystem: !/^system: writable$/m.test(said),
  };
}

/** The names of what should hold and does not. */
export function lacking(enforced: Enforced): string[] {
  return Object.entries(enforced).flatMap(([name, holds]) => (holds ? [] : [name]));
}
