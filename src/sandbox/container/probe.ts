import { type EnforcedProtections, probeScript, readProbe } from '../bwrap/probe.ts';

export const markFile = 'mark';

/** The script of bwrap's probe, with the mark in the working directory and the pid of the shell. */
export const containerProbeScript = `echo "self: $$"\ncat ${markFile}\n${probeScript}`;

/** A container that root starts has the users of the machine. */
type ContainerProtections = Omit<EnforcedProtections, 'ownUsers'>;

/** Undefined when the probe did not finish, or ran on another machine, which does not have our mounts. */
export function readContainerProbe(said: string, mark: string): ContainerProtections | undefined {
  const enforced = readProbe(said);
  if (enforced === undefined || !said.includes(mark)) return undefined;
  const { ownUsers: _, ...rest } = enforced;
  return { ...rest, ownProcesses: /^self: 1$/m.test(said) };
}
