import { readdirSync, readFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';

/** Every live process whose TMPDIR lies in the folder; written apart from the code under test. */
export function taggedProcesses(folder: string): number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .filter((pid) => isAlive(pid) && environmentOf(pid).some((entry) => entry.startsWith(`TMPDIR=${folder}`)));
}

function environmentOf(pid: number): string[] {
  try {
    return readFileSync(`/proc/${pid}/environ`, 'utf8').split('\0');
  } catch {
    return [];
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
  while (!condition()) {
    if (performance.now() - began > limitMs) throw new Error(`not within ${limitMs} ms: ${what()}`);
    await delay(10);
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
