import { existsSync, mkdirSync, rmdirSync, rmSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { listNames, readText } from '../../lib/fs/if-present.ts';

/**
 * Control groups outlive the process that made them. So the groups of a process are written down in the instance's
 * folder before they are made. The reaper, or the next start of Ambit, finds them there.
 */
const folderName = 'cgroups';
const cgroupName = /^ambit-[A-Za-z0-9._-]{1,200}$/;
const maxAttempts = 50;
const pauseMs = 20;

/** Notes groups by the private folder of a process, or by another name for groups that several processes share. */
export function noteCgroups(tmpDir: string, groups: readonly string[]): void {
  const folder = join(dirname(tmpDir), folderName);
  if (!existsSync(folder)) mkdirSync(folder, { mode: 0o700 });
  writeFileSync(join(folder, basename(tmpDir)), groups.map((group) => `${group}\n`).join(''), { mode: 0o600 });
}

/** Removes the note of groups that are gone. */
export function forgetCgroups(tmpDir: string): void {
  rmSync(join(dirname(tmpDir), folderName, basename(tmpDir)), { force: true });
}

/** Removes the groups of one process, which must have ended, and kills everything left in them. Never rejects. */
export async function removeCgroupsOf(root: string, name: string): Promise<void> {
  const list = join(root, folderName, name);
  const groups = readText(list)
    .split('\n')
    .filter((group) => cgroupName.test(basename(group)));
  if (groups.length === 0) return;
  const gone = await Promise.all(groups.map(removeCgroup));
  if (gone.every((each) => each)) rmSync(list, { force: true });
}

/** Removes the groups of a whole instance. */
export async function removeAllCgroups(root: string): Promise<void> {
  await Promise.all(listNames(join(root, folderName)).map((name) => removeCgroupsOf(root, name)));
}

/** Removes a group. Any other folder with files in it stays. */
async function removeCgroup(folder: string): Promise<boolean> {
  for (let attempt = 0; attempt < maxAttempts; attempt++) {
    try {
      rmdirSync(folder);
      return true;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return true;
      if ((error as NodeJS.ErrnoException).code !== 'EBUSY') return false;
    }
    for (const pid of listCgroupMembers(folder)) killProcess(pid);
    await delay(pauseMs);
  }
  return false;
}

export function listCgroupMembers(folder: string): number[] {
  return readText(join(folder, 'cgroup.procs'))
    .split('\n')
    .map(Number)
    .filter((pid) => pid > 1);
}

function killProcess(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch {
    // Gone already.
  }
}
