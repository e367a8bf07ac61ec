import { basename, dirname, resolve } from 'node:path';
import { ownerFile } from '../common/instance-owner.ts';

/** A process that the reaper ends and cleans up. */
export interface TrackedProcess {
  readonly pid: number;
  /** The start time in clock ticks, or 0 where it is unknown; then the pid alone proves nothing. */
  readonly start: number;
  /** Its private folder, a direct child of the instance's folder. */
  readonly name: string;
}

export type ReaperCommand =
  | { readonly do: 'watch' | 'release'; readonly tracked: TrackedProcess }
  | { readonly do: 'close' };

const namePattern = /^[A-Za-z0-9_-][A-Za-z0-9._-]{0,199}$/;
const commandPattern = /^(watch|release) ([0-9]{1,10}) ([0-9]{1,15}) (\S{1,200})$/;
const sweptPattern = /^swept ([0-9]{1,10}) (\S{1,200})$/;

/** The name of a folder in the root; throws unless it is a plain name directly in it. */
export function trackedName(root: string, tmpDir: string): string {
  const name = basename(tmpDir);
  if (dirname(resolve(tmpDir)) !== root || !isTrackedName(name)) {
    throw new Error(`The private folder must be directly inside ${root}: ${tmpDir}`);
  }
  return name;
}

function isTrackedName(name: string): boolean {
  return namePattern.test(name) && name !== ownerFile;
}

export function trackedKey(tracked: Pick<TrackedProcess, 'pid' | 'name'>): string {
  return `${tracked.pid} ${tracked.name}`;
}

export function formatCommand(command: ReaperCommand): string {
  if (command.do === 'close') return 'close\n';
  return `${command.do} ${command.tracked.pid} ${command.tracked.start} ${command.tracked.name}\n`;
}

/** Undefined for anything that is not exactly a command: nothing is ever killed on a guess. */
export function parseCommand(line: string): ReaperCommand | undefined {
  if (line === 'close') return { do: 'close' };
  const match = commandPattern.exec(line);
  if (match === null) return undefined;
  const [, verb, pid, start, name] = match;
  const tracked = { pid: Number(pid), start: Number(start), name: name ?? '' };
  if (tracked.pid <= 1 || !isTrackedName(tracked.name)) return undefined;
  return { do: verb === 'watch' ? 'watch' : 'release', tracked };
}

export function formatSwept(tracked: TrackedProcess): string {
  return `swept ${trackedKey(tracked)}\n`;
}

/** The key of the process that was swept. */
export function parseSwept(line: string): string | undefined {
  const match = sweptPattern.exec(line);
  return match === null ? undefined : `${match[1]} ${match[2]}`;
}
