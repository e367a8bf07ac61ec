import { readdirSync, readFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { findFamily, type RootProcess, signalProcess } from './process-family.ts';
import { listProcesses, type ProcessEntry, readStartTime } from './process-table.ts';

const limitMs = 5000;

/** All run for a moment after this many looks: a process that starts another one stops only after that start. */
const looksPerRound = 25;

const pauseMs = 1;

/** Some processes could not be stopped; all of them run again. */
export class NotPausedError extends Error {}

/** A process in a sandbox, with its descendants, and the folders it may write. */
interface Writer extends RootProcess {
  readonly folders: readonly string[];
  hasExited: boolean;
}

/** A sandbox that is about to be set up. */
interface SandboxSetup {
  /** Folders in which something is mounted. Nobody may move their entries meanwhile. */
  readonly mountFolders: readonly string[];
  /** Folders that its own program may write. */
  readonly writable: readonly string[];
}

interface PendingSetup extends SandboxSetup {
  readonly paused: readonly Writer[];
  readonly done: Promise<void>;
}

/** The writers of all runners in this process, since their processes may share folders. */
const writers = new Set<Writer>();
const pendingSetups = new Set<PendingSetup>();

/** Registers a process to pause during set-ups in its folders. Call the result when the process may be gone. */
export function registerWriter(pid: number, folders: readonly string[]): () => void {
  const start = readStartTime(pid);
  if (start === undefined) return () => {};
  const writer: Writer = { pid, start, folders, hasExited: false };
  forgetEndedWriters();
  writers.add(writer);
  return () => {
    writer.hasExited = true;
    forgetEndedWriters();
  };
}

function forgetEndedWriters(): void {
  for (const writer of writers) {
    if (writer.hasExited && readStartTime(writer.pid) !== writer.start) writers.delete(writer);
  }
}

/**
 * Runs work while no process in a sandbox of ours can write to the mount points of a new sandbox. Conflicting set-ups
 * wait for each other. Throws NotPausedError when a process cannot be stopped.
 */
export async function withWritersPaused<T>(setUp: SandboxSetup, work: () => Promise<T>): Promise<T> {
  const paused = await waitForConflicts(setUp);
  let finish: () => void = () => {};
  const done = new Promise<void>((accept) => {
    finish = accept;
  });
  const own = { ...setUp, paused, done };
  pendingSetups.add(own);
  try {
    const resume = paused.length === 0 ? () => {} : await pauseProcesses(paused);
    return await work().finally(resume);
  } finally {
    pendingSetups.delete(own);
    finish();
  }
}

/** Resolves when no pending set-up can be disturbed by a process that may write to these folders. */
export async function waitForSetups(writable: readonly string[]): Promise<void> {
  await waitForConflicts({ mountFolders: [], writable });
}

/** Waits for conflicting set-ups, and resolves with the writers to pause. */
async function waitForConflicts(setUp: SandboxSetup): Promise<Writer[]> {
  for (;;) {
    const found = [...writers].filter(({ folders }) => doFoldersOverlap(folders, setUp.mountFolders));
    const other = [...pendingSetups].find(
      (each) =>
        doFoldersOverlap(each.mountFolders, setUp.writable) ||
        doFoldersOverlap(each.writable, setUp.mountFolders) ||
        found.some((writer) => each.paused.includes(writer)),
    );
    if (other === undefined) return found;
    await other.done;
  }
}

function doFoldersOverlap(some: readonly string[], others: readonly string[]): boolean {
  return some.some((one) => others.some((other) => containsPath(one, other) || containsPath(other, one)));
}

const containsPath = (folder: string, path: string): boolean =>
  path === folder || path.startsWith(folder === '/' ? folder : `${folder}/`);

/**
 * Stops processes with their descendants, and resolves with a function that continues them. A running process can
 * continue a stopped one. So they are checked until all stand still twice in a row and none has run in between.
 */
async function pauseProcesses(roots: readonly RootProcess[]): Promise<() => void> {
  const stopped = new Map<string, ProcessEntry>();
  const resume = () => {
    for (const entry of stopped.values()) signalProcess(entry, 'SIGCONT');
    stopped.clear();
  };
  const deadline = performance.now() + limitMs;
  let before: string | undefined;
  try {
    for (let look = 1; ; look++) {
      const { running, mark } = findRunning(findProcesses(roots));
      if (running.length === 0 && mark === before) return resume;
      before = running.length === 0 ? mark : undefined;
      if (performance.now() > deadline) throw new NotPausedError('Processes in a sandbox could not be stopped.');
      if (look % looksPerRound === 0) resume();
      else stopProcesses(running, stopped);
      if (running.length > 0) await delay(pauseMs);
    }
  } catch (error) {
    resume();
    throw error;
  }
}

function findProcesses(roots: readonly RootProcess[]): ProcessEntry[] {
  const family = { roots, isOurs: () => false, since: 0, isSpared: () => false };
  return findFamily(
    listProcesses(() => false),
    family,
  );
}

/** Finds the processes that run. The mark changes when any thread has run. */
function findRunning(processes: readonly ProcessEntry[]): { running: ProcessEntry[]; mark: string } {
  const marks: string[] = [];
  const running = processes.filter(({ pid }) => {
    const threads = readThreads(pid);
    marks.push(...threads.map(({ mark }) => mark));
    return threads.some(({ isStill }) => !isStill);
  });
  return { running, mark: marks.sort().join('\n') };
}

function readThreads(pid: number): { isStill: boolean; mark: string }[] {
  const folder = `/proc/${pid}/task`;
  try {
    return readdirSync(folder).map((thread) => {
      const status = readFileSync(`${folder}/${thread}/status`, 'latin1');
      const switches = status.slice(status.indexOf('\nvoluntary_ctxt_switches'));
      // The name of the thread, in the first line, may hold any line end but a line feed.
      return { isStill: /\nState:\s[TtZX]/.test(status), mark: `${thread} ${switches}` };
    });
  } catch {
    // The process, or one of its threads, has just ended: it ran a moment ago.
    return [{ isStill: false, mark: '' }];
  }
}

function stopProcesses(running: readonly ProcessEntry[], stopped: Map<string, ProcessEntry>): void {
  for (const entry of running) {
    stopped.set(`${entry.pid} ${entry.start}`, entry);
    signalProcess(entry, 'SIGSTOP');
  }
}
