import { existsSync, mkdirSync, readdirSync, readFileSync, rmdirSync, rmSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';

/**
 * Control groups outlive those who made them. Which ones belong to a process is therefore written down in the instance's
 * folder before they are made, where the warden finds it, or whoever comes after the warden.
 */
const folderName = 'cgroups';
const cgroupName = /^ambit-[A-Za-z0-9._-]{1,200}$/;
const maxAttempts = 50;
const pauseMs = 20;

/** By the private folder of a process, or by a name in its place for what several processes share. */
export function noteCgroups(tmpDir: string, groups: readonly string[]): void {
  const folder = join(dirname(tmpDir), folderName);
  if (!existsSync(folder)) mkdirSync(folder, { mode: 0o700 });
  writeFileSync(join(folder, basename(tmpDir)), groups.map((group) => `${group}\n`).join(''), { mode: 0o600 });
}

/** They are gone. */
export function forgetCgroups(tmpDir: string): void {
  rmSync(join(dirname(tmpDir), folderName, basename(tmpDir)), { force: true });
}

/** Those of one process, which must have ended; whoever is left in them is killed. Never rejects. */
export async function removeCgroupsOf(root: string, name: string): Promise<void> {
  const list = join(root, folderName, name);
  const groups = readText(list)
    .split('\n')
    .filter((group) => cgroupName.test(basename(group)));
  if (groups.length === 0) return;
  const gone = await Promise.all(groups.map(removeCgroup));
  if (gone.every((each) => each)) rmSync(list, { force: true });
}

/** Those of a whole instance. */
export async function removeAllCgroups(root: string): Promise<void> {
  let names: string[];
  try {
    names = readdirSync(join(root, folderName));
  } catch {
    return;
  }
  await Promise.all(names.map((name) => removeCgroupsOf(root, name)));
}

/** Nothing but a group can be removed like this: any other folder with files in it stays. */
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

function readText(path: string): string {
  try {
    return readFileSync(path, 'latin1');
  } catch {
    return '';
  }
}
