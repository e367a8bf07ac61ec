import { setTimeout as delay } from 'node:timers/promises';
import { listProcesses, type ProcessEntry, readStartTime, type TaggedProcess } from './process-table.ts';

/** Between rounds that found something. */
const maxPauseMs = 50;
const stopPasses = 10;

/** A process we started, named so that a later process with the same pid is not taken for it. */
export interface RootProcess {
  readonly pid: number;
  readonly start: number;
}

/** The rules that decide whether a process is ours. */
export interface ProcessFamily {
  readonly roots: readonly RootProcess[];
  /** Whether a TMPDIR is one that only our processes have. */
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
  const starts = new Map<number, number>();
  const related = new Map<number, ProcessEntry[]>();
  const candidates: TaggedProcess[] = [];
  for (const entry of processes) {
    starts.set(entry.pid, entry.start);
    if (!isCandidate(entry, family)) continue;
    candidates.push(entry);
    for (const relative of new Set([entry.pid, entry.parent, entry.group, entry.session])) {
      const list = related.get(relative);
      if (list === undefined) related.set(relative, [entry]);
      else list.push(entry);
    }
  }

  const found = new Set<ProcessEntry>();
  const claimRelatives = (root: RootProcess): void => {
    const open = [root.pid];
    for (let next = open.pop(); next !== undefined; next = open.pop()) {
      for (const entry of related.get(next) ?? []) {
        if (found.has(entry) || entry.start < root.start) continue;
        found.add(entry);
        open.push(entry.pid);
      }
    }
  };
  for (const root of family.roots) {
    const start = starts.get(root.pid) ?? root.start;
    // Gone is fine: its number stays taken while its group or session has members. A different start is a stranger.
    if (root.pid > 1 && root.start > 0 && start === root.start) claimRelatives(root);
  }
  for (const entry of candidates) {
    if (entry.tmpDirs.some((tmpDir) => family.isOurs(tmpDir))) claimRelatives(entry);
  }
  return [...found].filter((entry) => !entry.dead);
}

function isCandidate(entry: ProcessEntry, family: ProcessFamily): boolean {
  return entry.pid > 1 && entry.start >= family.since && !family.isSpared(entry);
}

export interface KillOptions {
  /** How often in a row nothing must be found: a process is invisible for a moment while it becomes another program. */
  readonly emptyRounds: number;
  readonly pauseMs: number;
  readonly limitMs: number;
  /** Checked before each round. */
  isStopped?(): boolean;
}

/** Kills until nothing is found any more; resolves with the most that were found in one round. */
export async function killUntilGone(family: ProcessFamily, thoroughness: KillOptions): Promise<number> {
  const deadline = performance.now() + thoroughness.limitMs;
  let maxFound = 0;
  let emptyRounds = 0;
  for (let round = 1; thoroughness.isStopped?.() !== true; round++) {
    const found = killFamilyOnce(family);
    maxFound = Math.max(maxFound, found);
    emptyRounds = found === 0 ? emptyRounds + 1 : 0;
    if (emptyRounds >= thoroughness.emptyRounds || performance.now() > deadline) break;
    await delay(found === 0 ? thoroughness.pauseMs : Math.min(round, maxPauseMs));
  }
  return maxFound;
}

/**
 * Stops all of them before killing any: who is stopped can start no further process, and as long as a parent lives,
 * its children can be traced to it.
 */
function killFamilyOnce(family: ProcessFamily): number {
  const stopped = new Set<string>();
  for (let pass = 1; ; pass++) {
    const found = findFamily(
      listProcesses((entry) => isCandidate(entry, family)),
      family,
    );
    const running = found.filter((entry) => !stopped.has(`${entry.pid} ${entry.start}`));
    if (running.length === 0 || pass === stopPasses) {
      for (const entry of found) signalProcess(entry, 'SIGKILL');
      return found.length;
    }
    for (const entry of running) {
      signalProcess(entry, 'SIGSTOP');
      stopped.add(`${entry.pid} ${entry.start}`);
    }
  }
}

/** Signals a process after checking that the pid is still the same process. */
function signalProcess(entry: ProcessEntry, name: 'SIGSTOP' | 'SIGKILL'): void {
  if (readStartTime(entry.pid) !== entry.start) return;
  for (const target of entry.group === entry.pid ? [-entry.pid, entry.pid] : [entry.pid]) {
    try {
      process.kill(target, name);
    } catch {
      // Gone already, or not ours to signal: the next round tells.
    }
  }
}
