import { existsSync, mkdirSync, readdirSync, readFileSync, rmdirSync, rmSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';

/**
 * Control groups outlive those who made them. Which ones belong to a process is therefore written down in the instance's
 * folder before they are made, where the warden finds it, or whoever comes after the warden.
 */
const folderName = 'cgroups';
const groupName = /^ambit-[A-Za-z0-9._-]{1,200}$/;
const attempts = 50;
const pauseMs = 20;

/** By the private folder of a process, or by a name in its place for what several processes share. */
export function noteGroups(tmpDir: string, groups: readonly string[]): void {
  const folder = join(dirname(tmpDir), folderName);
  if (!existsSync(folder)) mkdirSync(folder, { mode: 0o700 });
  writeFileSync(join(folder, basename(tmpDir)), groups.map((group) => `${group}\n`).join(''), { mode: 0o600 });
}

/** They are gone. */
export function forgetGroups(tmpDir: string): void {
  rmSync(join(dirname(tmpDir), folderName, basename(tmpDir)), { force: true });
}

/** Those of one process, which must have ended; whoever is left in them is killed. Never rejects. */
export async function removeGroupsOf(root: string, name: string): Promise<void> {
  const list = join(root, folderName, name);
  const groups = read(list)
    .split('\n')
    .filter((group) => groupName.test(basename(group)));
  if (groups.length === 0) return;
  const gone = await Promise.all(groups.map(removeGroup));
  if (gone.every((each) => each)) rmSync(list, { force: true });
}

/** Those of a whole instance. */
export async function removeAllGroups(root: string): Promise<void> {
  let names: string[];
  try {
    names = readdirSync(join(root, folderName));
  } catch {
    return;
  }
  await Promise.all(names.map((name) => removeGroupsOf(root, name)));
}

/** Nothing but a group can be removed like this: any other folder with files in it stays. */
async function removeGroup(folder: string): Promise<boolean> {
  for (let attempt = 0; attempt < attempts; attempt++) {
    try {
      rmdirSync(folder);
      return true;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return true;
      if ((error as NodeJS.ErrnoException).code !== 'EBUSY') return false;
    }
    for (const pid of membersOf(folder)) kill(pid);
    await delay(pauseMs);
  }
  return false;
}

export function membersOf(folder: string): number[] {
  return read(join(folder, 'cgroup.procs'))
    .split('\n')
    .map(Number)
    .filter((pid) => pid > 1);
}

function kill(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch {
    // Gone already.
  }
}

function read(path: string): string {
  try {
    return readFileSync(path, 'latin1');
  } catch {
    return '';
  }
}
