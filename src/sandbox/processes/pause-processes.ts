import { readdirSync, readFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { findFamily, type Root } from './process-family.ts';
import { listProcesses, type ProcessEntry, startTimeOf } from './process-table.ts';

const limitMs = 5000;
/** Who has just started another process stands still only when that one has come further: then all go on for a moment. */
const looksAtATime = 25;
const pauseMs = 1;

/** They could not all be stopped; none of them is any more. */
export class NotPaused extends Error {}

/**
 * Stops processes with all that they have started, and resolves with what lets them go on. A process can let another one go
 * on until it is stopped itself. So they are looked at until all stand still twice in a row and none has run in between.
 */
export async function pauseProcesses(roots: readonly Root[]): Promise<() => void> {
  const stopped = new Map<string, ProcessEntry>();
  const resume = () => {
    for (const entry of stopped.values()) signal(entry, 'SIGCONT');
    stopped.clear();
  };
  const deadline = performance.now() + limitMs;
  let before: string | undefined;
  try {
    for (let look = 1; ; look++) {
      const { running, mark } = lookAt(familyOf(roots));
      if (running.length === 0 && mark === before) return resume;
      before = running.length === 0 ? mark : undefined;
      if (performance.now() > deadline) throw new NotPaused('Processes in a sandbox could not be stopped.');
      if (look % looksAtATime === 0) resume();
      else stop(running, stopped);
      if (running.length > 0) await delay(pauseMs);
    }
  } catch (error) {
    resume();
    throw error;
  }
}

function familyOf(roots: readonly Root[]): ProcessEntry[] {
  const family = { roots, isOurs: () => false, since: 0, isSpared: () => false };
  return findFamily(
    listProcesses(() => false),
    family,
  );
}

/** Those that run, and what would be different had any thread run. */
function lookAt(processes: readonly ProcessEntry[]): { running: ProcessEntry[]; mark: string } {
  const marks: string[] = [];
  const running = processes.filter(({ pid }) => {
    const threads = threadsOf(pid);
    marks.push(...threads.map(({ mark }) => mark));
    return threads.some(({ isStill }) => !isStill);
  });
  return { running, mark: marks.sort().join('\n') };
}

function threadsOf(pid: number): { isStill: boolean; mark: string }[] {
  const folder = `/proc/${pid}/task`;
  try {
    return readdirSync(folder).map((thread) => {
      const status = readFileSync(`${folder}/${thread}/status`, 'latin1');
      const switches = status.slice(status.indexOf('\nvoluntary_ctxt_switches'));
      return { isStill: /^State:\s[TtZX]/m.test(status), mark: `${thread} ${switches}` };
    });
  } catch {
    // It has just ended, or one of its threads has: it ran a moment ago.
    return [{ isStill: false, mark: '' }];
  }
}

function stop(running: readonly ProcessEntry[], stopped: Map<string, ProcessEntry>): void {
  for (const entry of running) {
    stopped.set(`${entry.pid} ${entry.start}`, entry);
    signal(entry, 'SIGSTOP');
  }
}

/** Only after another look at whose pid it is. */
function signal({ pid, start }: ProcessEntry, name: 'SIGSTOP' | 'SIGCONT'): void {
  if (startTimeOf(pid) !== start) return;
  try {
    process.kill(pid, name);
  } catch {
    // Gone already, or not ours to signal: the next look tells.
  }
}
