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

/** A process in a sandbox, with all it starts, and the folders it may write. */
interface Writer extends Root {
  readonly folders: readonly string[];
  mayBeGone: boolean;
}

/** A sandbox that is about to be set up. */
export interface SetUp {
  /** Folders in which something is mounted. Nobody may move what lies in them meanwhile. */
  readonly mountedUpon: readonly string[];
  /** Folders that its own program may write. */
  readonly writable: readonly string[];
}

interface UnderWay extends SetUp {
  readonly paused: readonly Writer[];
  readonly done: Promise<void>;
}

/** Of all runners of this process: what they start may share folders. */
const writers = new Set<Writer>();
const underWay = new Set<UnderWay>();

/** From now on it stands still while a sandbox is set up over what it may write. Call what is returned when it may be gone. */
export function noteWriter(pid: number, folders: readonly string[]): () => void {
  const start = startTimeOf(pid);
  if (start === undefined) return () => {};
  const writer: Writer = { pid, start, folders, mayBeGone: false };
  forgetGone();
  writers.add(writer);
  return () => {
    writer.mayBeGone = true;
    forgetGone();
  };
}

function forgetGone(): void {
  for (const writer of writers) {
    if (writer.mayBeGone && startTimeOf(writer.pid) !== writer.start) writers.delete(writer);
  }
}

/**
 * Does something while no process in a sandbox of ours can write where a new sandbox has something mounted. Set-ups that
 * would get in each other's way wait for each other. Throws `NotPaused` when one of the processes cannot be stopped.
 */
export async function withWritersPaused<T>(setUp: SetUp, work: () => Promise<T>): Promise<T> {
  const paused = await takeTurn(setUp);
  let finish: () => void = () => {};
  const done = new Promise<void>((accept) => {
    finish = accept;
  });
  const own = { ...setUp, paused, done };
  underWay.add(own);
  try {
    const resume = paused.length === 0 ? () => {} : await pauseProcesses(paused);
    return await work().finally(resume);
  } finally {
    underWay.delete(own);
    finish();
  }
}

/** Resolves when no set-up is under way that a process would disturb which may write to these folders. */
export async function setUpsOver(writable: readonly string[]): Promise<void> {
  await takeTurn({ mountedUpon: [], writable });
}

/** Resolves with those that have to stand still, once nobody else is in the way. */
async function takeTurn(setUp: SetUp): Promise<Writer[]> {
  for (;;) {
    const found = [...writers].filter(({ folders }) => overlap(folders, setUp.mountedUpon));
    const other = [...underWay].find(
      (each) =>
        overlap(each.mountedUpon, setUp.writable) ||
        overlap(each.writable, setUp.mountedUpon) ||
        found.some((writer) => each.paused.includes(writer)),
    );
    if (other === undefined) return found;
    await other.done;
  }
}

function overlap(some: readonly string[], others: readonly string[]): boolean {
  return some.some((one) => others.some((other) => holds(one, other) || holds(other, one)));
}

const holds = (folder: string, path: string): boolean =>
  path === folder || path.startsWith(folder === '/' ? folder : `${folder}/`);

/**
 * Stops processes with all that they have started, and resolves with what lets them go on. A process can let another one go
 * on until it is stopped itself. So they are looked at until all stand still twice in a row and none has run in between.
 */
async function pauseProcesses(roots: readonly Root[]): Promise<() => void> {
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
