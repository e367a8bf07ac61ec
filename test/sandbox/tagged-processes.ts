import { readdirSync, readFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { proof } from '../proof.ts';

/** Every live process whose TMPDIR lies in the folder; written apart from the code under test. */
export function taggedProcesses(folder: string): number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .filter((pid) => `\0${textOf(`/proc/${pid}/environ`)}`.includes(`\0TMPDIR=${folder}`) && isAlive(pid));
}

/** Empty for a file that is not there any more. */
export function textOf(path: string): string {
  try {
    return readFileSync(path, 'latin1');
  } catch {
    return '';
  }
}

export const nameOf = (pid: number): string => textOf(`/proc/${pid}/comm`).trim();

/** Alive and not merely waiting to be collected. */
export function isAlive(pid: number): boolean {
  const stat = textOf(`/proc/${pid}/stat`);
  return stat !== '' && !/\) [ZX] /.test(stat);
}

/** A little less than a test may take, so that the reason is told and not only that the time is over. */
const patienceMs = 50_000;

/**
 * Waits until the condition holds and returns how many milliseconds that took. `npm run proof` checks the limit. `npm test`
 * does not, since another program may be using the processors: there it waits as long as a test may take.
 */
export async function until(condition: () => boolean, givenMs: number, what: () => string): Promise<number> {
  const limitMs = proof ? givenMs : Math.max(givenMs, patienceMs);
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
