import { readdirSync, readFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';

/** Every live process whose TMPDIR lies in the folder; written apart from the code under test. */
export function taggedProcesses(folder: string): number[] {
  // Asked again and again while something is awaited: nearly all processes are others, so one look must do for them.
  const entry = `\0TMPDIR=${folder}`;
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .filter((pid) => environmentOf(pid).includes(entry) && isAlive(pid));
}

function environmentOf(pid: number): Buffer {
  try {
    return Buffer.concat([Buffer.from('\0'), readFileSync(`/proc/${pid}/environ`)]);
  } catch {
    return Buffer.alloc(0);
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
