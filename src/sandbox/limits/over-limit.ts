import type { Usage } from '../processes/usage.ts';
import type { Exit } from '../runner.ts';
import type { Refusals } from './cgroup-settings.ts';
import type { Limits } from './limits.ts';
import { tooLargeFile } from './rlimits.ts';

/** What a shell says of a program that was killed outright. */
const killed = 128 + 9;

/** Why a process that used this much has to end. */
export function overLimit(used: Usage, { memoryMb, pids }: Limits): string | undefined {
  if (used.memoryMb > memoryMb) {
    return `it used ${Math.round(used.memoryMb)} MiB of memory, and sandbox.memoryMb is ${memoryMb}`;
  }
  if (used.pids > pids) return `it had ${used.pids} processes and threads, and sandbox.pids is ${pids}`;
  return undefined;
}

export function outOfMemory({ memoryMb }: Limits): string {
  return `it wanted more memory than it was given, and sandbox.memoryMb is ${memoryMb}`;
}

export function tooOld({ wallSeconds }: Limits): string {
  return `it ran as long as it may, and sandbox.wallSeconds is ${wallSeconds}`;
}

/** Why a process has left that nobody told to; undefined where no limit had a part in it. */
export function whyItLeft({ code }: Exit, refused: Refusals | undefined, limits: Limits): string | undefined {
  if ((refused?.memory ?? 0) > 0) return outOfMemory(limits);
  if (refused === undefined && code === killed) {
    return `it was killed, most likely for more memory than there was, and sandbox.memoryMb is ${limits.memoryMb}`;
  }
  if (code === tooLargeFile) return `it wrote a larger file than it may, and sandbox.fileMb is ${limits.fileMb}`;
  if (code !== 0 && (refused?.pids ?? 0) > 0) {
    return `it was refused further processes and threads, and sandbox.pids is ${limits.pids}`;
  }
  return undefined;
}
