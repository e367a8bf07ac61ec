import { setTimeout as delay } from 'node:timers/promises';
import { listProcesses, type ProcessEntry, readStartTime, type TaggedProcess } from './process-table.ts';

/** The longest pause between rounds that found something. */
const maxPauseMs = 50;
const stopPasses = 10;

/** A process we started. The start time tells it from a later process with the same pid. */
export type RootProcess = Pick<ProcessEntry, 'pid' | 'start'>;

/** The rules that decide whether a process is ours. */
export interface ProcessFamily {
  readonly roots: readonly RootProcess[];
  /** Whether only our processes have this TMPDIR. */
  isOurs(tmpDir: string): boolean;
  /** Processes that started before this are not ours. */
  readonly since: number;
  isSpared(entry: ProcessEntry): boolean;
}

/**
 * Finds our processes: descendants of a root, members of its session or group, processes with our TMPDIR, and the
 * descendants, sessions and groups of all these.
 */
export function findFamily(processes: readonly TaggedProcess[], family: ProcessFamily): ProcessEntry[] {
  const starts = new Map(processes.map(({ pid, start }) => [pid, start]));
  const candidates = processes.filter((entry) => isCandidate(entry, family));
  const related = indexRelatives(candidates);
  const found = new Set<ProcessEntry>();
  for (const root of family.roots) {
    const start = starts.get(root.pid) ?? root.start;
    // A root may be gone: its pid stays reserved while its group or session has members. Another start time is a
    // stranger.
    if (root.pid > 1 && root.start > 0 && start === root.start) claimRelatives(related, root, found);
  }
  for (const entry of candidates) {
    if (entry.tmpDirs.some((tmpDir) => family.isOurs(tmpDir))) claimRelatives(related, entry, found);
  }
  return [...found].filter((entry) => !entry.dead);
}

/** The processes that have a pid as their own, or as that of their parent, group or session. */
type Relatives = ReadonlyMap<number, readonly ProcessEntry[]>;

export function indexRelatives(processes: readonly ProcessEntry[]): Relatives {
  const related = new Map<number, ProcessEntry[]>();
  for (const entry of processes) {
    for (const relative of new Set([entry.pid, entry.parent, entry.group, entry.session])) {
      const list = related.get(relative);
      if (list === undefined) related.set(relative, [entry]);
      else list.push(entry);
    }
  }
  return related;
}

/** Adds a process and its relatives to those that were found. Processes that are older than it are strangers. */
export function claimRelatives(related: Relatives, root: RootProcess, found: Set<ProcessEntry>): void {
  const open = [root.pid];
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    for (const entry of related.get(next) ?? []) {
      if (found.has(entry) || entry.start < root.start) continue;
      found.add(entry);
      open.push(entry.pid);
    }
  }
}

function isCandidate(entry: ProcessEntry, family: ProcessFamily): boolean {
  return entry.pid > 1 && entry.start >= family.since && !family.isSpared(entry);
}

interface KillOptions {
  /** The number of empty rounds in a row: a process is invisible for a moment while it executes another program. */
  readonly emptyRounds: number;
  readonly pauseMs: number;
  readonly limitMs: number;
  /** Checked before each round. */
  isStopped?(): boolean;
}

/** Kills until nothing is found any more; resolves with the largest number of one round. */
export async function killUntilGone(family: ProcessFamily, options: KillOptions): Promise<number> {
  const deadline = performance.now() + options.limitMs;
  let maxFound = 0;
  let emptyRounds = 0;
  for (let round = 1; options.isStopped?.() !== true; round++) {
    const found = killFamilyOnce(family);
    maxFound = Math.max(maxFound, found);
    emptyRounds = found === 0 ? emptyRounds + 1 : 0;
    if (emptyRounds >= options.emptyRounds || performance.now() > deadline) break;
    await delay(found === 0 ? options.pauseMs : Math.min(round, maxPauseMs));
  }
  return maxFound;
}

/**
 * Stops all of them before killing any: a stopped process starts no others, and the children of a living parent can be
 * traced to it.
 */
function killFamilyOnce(family: ProcessFamily): number {
  const isPossible = (entry: ProcessEntry) => isCandidate(entry, family);
  const stopped = new Set<string>();
  for (let pass = 1; ; pass++) {
    const found = findFamily(listProcesses(isPossible), family);
    const running = found.filter((entry) => !stopped.has(`${entry.pid} ${entry.start}`));
    if (running.length === 0 || pass === stopPasses) {
      for (const entry of found) signalProcess(entry, 'SIGKILL', withGroup(entry));
      return found.length;
    }
    for (const entry of running) {
      signalProcess(entry, 'SIGSTOP', withGroup(entry));
      stopped.add(`${entry.pid} ${entry.start}`);
    }
  }
}

const withGroup = ({ pid, group }: ProcessEntry): number[] => (group === pid ? [-pid, pid] : [pid]);

/** Signals a process after checking that the pid is still the same process. */
export function signalProcess({ pid, start }: RootProcess, name: NodeJS.Signals, targets = [pid]): void {
  if (readStartTime(pid) !== start) return;
  for (const target of targets) {
    try {
      process.kill(target, name);
    } catch {
      // Gone already, or not ours to signal: the next round shows.
    }
  }
}
