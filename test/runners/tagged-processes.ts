import { readdirSync, readFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';

/** Every live process whose TMPDIR lies in the folder; written apart from the code under test. */
export function taggedProcesses(folder: string): number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .filter((pid) => environmentOf(pid).includes(`\0TMPDIR=${folder}`) && isAlive(pid));
}

function environmentOf(pid: number): string {
  try {
    return `\0${readFileSync(`/proc/${pid}/environ`, 'utf8')}`;
  } catch {
    return '';
  }
}

/** Alive and not merely waiting to be collected. */
export function isAlive(pid: number): boolean {
  try {
    return !/\) [ZX] /.test(readFileSync(`/proc/${pid}/stat`, 'latin1'));
  } catch {
    return false;
  }
}

/** Milliseconds until the condition held; throws when it does not within the limit. */
export async function until(condition: () => boolean, limitMs: number, what: () => string): Promise<number> {
  const began = performance.now();
  // What comes at once is seen at once; what takes its time is not slowed down by being looked at.
  for (let pause = 5; !condition(); pause = Math.min(pause * 1.5, 60)) {
    if (performance.now() - began > limitMs) throw new Error(`not within ${limitMs} ms: ${what()}`);
    await delay(pause);
  }
  return performance.now() - began;
}

export function killTagged(folder: string): void {
  for (const pid of taggedProcesses(folder)) {
    try {
      process.kill(pid, 'SIGKILL');
    } catch {
      // Gone meanwhile.
    }
  }
}
