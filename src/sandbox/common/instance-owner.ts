import { constants } from 'node:fs';
import { open, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { readStartTime } from '../processes/process-table.ts';

/** The Ambit process that owns an instance's folder; `start` is 0 where start times are unknown. */
export interface InstanceOwner {
  readonly pid: number;
  readonly start: number;
}

export const ownerFile = 'owner';

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
