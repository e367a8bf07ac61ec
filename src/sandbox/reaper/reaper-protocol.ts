import { constants } from 'node:fs';
import { open, writeFile } from 'node:fs/promises';
import { basename, dirname, join, resolve } from 'node:path';
import { readStartTime } from '../processes/process-table.ts';

/** The Ambit process that owns an instance's folder; `start` is 0 where start times are unknown. */
export interface InstanceOwner {
  readonly pid: number;
  readonly start: number;
}

const ownerFile = 'owner';

export function thisProcess(): InstanceOwner {
  return { pid: process.pid, start: readStartTime(process.pid) ?? 0 };
}

export async function writeOwner(root: string, owner: InstanceOwner): Promise<void> {
  await writeFile(join(root, ownerFile), `${owner.pid} ${owner.start}\n`, { flag: 'wx', mode: 0o600 });
}

/** Undefined for a missing file, or one that Ambit did not write. */
export async function readOwner(root: string): Promise<InstanceOwner | undefined> {
  try {
    const file = await open(join(root, ownerFile), constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
    try {
      const { buffer, bytesRead } = await file.read(Buffer.alloc(64), 0, 64, 0);
      const match = /^([1-9][0-9]{0,9}) ([0-9]{1,15})\n$/.exec(buffer.toString('latin1', 0, bytesRead));
      return match === null ? undefined : { pid: Number(match[1]), start: Number(match[2]) };
    } finally {
      await file.close();
    }
  } catch {
    return undefined;
  }
}

/** Only the owner of a folder removes it as a whole: a wrong root is never emptied. */
export async function isOwnedBy(root: string, owner: InstanceOwner): Promise<boolean> {
  const found = await readOwner(root);
  return found?.pid === owner.pid && found.start === owner.start;
}

/** Answers true in doubt, since the folder of a live instance must not be touched. */
export function isOwnerAlive(owner: InstanceOwner): boolean {
  const start = readStartTime(owner.pid);
  if (start !== undefined && owner.start !== 0) return start === owner.start;
  try {
    process.kill(owner.pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}

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
