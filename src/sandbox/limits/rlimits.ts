import { existsSync, readFileSync } from 'node:fs';
import { release } from 'node:os';
import type { ResourceLimits } from './limits.ts';

const prlimit = '/usr/bin/prlimit';
/** The first process inside bwrap, which reaps the others. */
const bwrapProcesses = 1;
/** The exit code that a shell reports for a program that the kernel ended for too large a file. */
export const tooLargeFileCode = 128 + 25;

export const hasRlimits = (): boolean => existsSync(prlimit);

/**
 * Whether the kernel counts the processes of a sandbox separately. Before 5.14 it counted all processes of the user
 * together, and it does not limit root at all.
 */
export function canCountProcesses(kernel = release(), uid = process.getuid?.()): boolean {
  const [major = 0, minor = 0] = kernel.split('.').map((part) => Number.parseInt(part, 10));
  return uid !== 0 && (major > 5 || (major === 5 && minor >= 14));
}

/** Wraps a program in `prlimit`, without exceeding Ambit's own limits. */
export function wrapInRlimits(
  [program, ...args]: readonly [string, ...string[]],
  { fileMb, openFiles, pids }: ResourceLimits,
  bySandbox: boolean,
  own = readFileSync('/proc/self/limits', 'latin1'),
): [string, ...string[]] {
  const capAtHardLimit = (name: string, wanted: number) => Math.min(wanted, parseHardLimit(own, name));
  return [
    prlimit,
    '--core=0',
    `--fsize=${capAtHardLimit('Max file size', fileMb * 1024 * 1024)}`,
    `--nofile=${capAtHardLimit('Max open files', openFiles)}`,
    ...(bySandbox ? [`--nproc=${capAtHardLimit('Max processes', pids + bwrapProcesses)}`] : []),
    '--',
    program,
    ...args,
  ];
}

/** The hard limit of this name in the text of `/proc/self/limits`. */
export function parseHardLimit(text: string, name: string): number {
  const found = new RegExp(`^${name}\\s+\\S+\\s+(\\d+)`, 'm').exec(text)?.[1];
  return found === undefined ? Number.POSITIVE_INFINITY : Number(found);
}
