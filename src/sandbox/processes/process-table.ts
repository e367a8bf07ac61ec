import { closeSync, openSync, readdirSync, readSync } from 'node:fs';
import { listNames, readText } from '../../lib/fs/if-present.ts';

export interface ProcessEntry {
  readonly pid: number;
  readonly parent: number;
  readonly group: number;
  readonly session: number;
  /** The start time in clock ticks since boot; with the pid it identifies one process for good. */
  readonly start: number;
  /** Whether it is a zombie that its parent has not collected yet. */
  readonly dead: boolean;
}

export interface TaggedProcess extends ProcessEntry {
  /** The TMPDIRs of the process; empty unless asked for. */
  readonly tmpDirs: readonly string[];
}

const closeOnExec = 0o2000000;
const listPasses = 5;
let scratch = Buffer.allocUnsafeSlow(16 * 1024);

/** Reads a file into a buffer that is valid until the next call. Files below /proc have no size. */
function readScratch(path: string): Buffer | undefined {
  let file: number;
  try {
    file = openSync(path, 'r');
  } catch {
    return undefined;
  }
  try {
    let used = 0;
    for (;;) {
      const read = readSync(file, scratch, used, scratch.length - used, null);
      if (read === 0) return scratch.subarray(0, used);
      used += read;
      if (used === scratch.length) scratch = Buffer.concat([scratch], scratch.length * 2);
    }
  } catch {
    return undefined;
  } finally {
    closeSync(file);
  }
}

export function readProcess(pid: number): ProcessEntry | undefined {
  const text = readScratch(`/proc/${pid}/stat`)?.toString('latin1');
  if (text === undefined) return undefined;
  // The command name is in parentheses and may itself contain spaces, newlines and parentheses.
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
  const start = Number(fields[19]);
  if (!Number.isSafeInteger(start) || start < 0) return undefined;
  return {
    pid,
    parent: Number(fields[1]),
    group: Number(fields[2]),
    session: Number(fields[3]),
    start,
    // A process whose first thread has ended looks dead while its other threads run.
    dead: /^[ZXx]$/.test(fields[0] ?? '') && Number(fields[17]) <= 1,
  };
}

/** Undefined without such a process, or without /proc. */
export function readStartTime(pid: number): number | undefined {
  return readProcess(pid)?.start;
}

/**
 * Lists all processes; none without /proc. TMPDIRs are read at once where asked for: a fast process is easily missed
 * between two passes, and so is one that starts during the listing.
 */
export function listProcesses(wantsTmpDirs: (entry: ProcessEntry) => boolean): TaggedProcess[] {
  const processes: TaggedProcess[] = [];
  const seen = new Set<string>();
  for (let pass = 0; pass < listPasses; pass++) {
    const before = seen.size;
    for (const name of listNames('/proc')) {
      if (seen.has(name) || !/^[1-9][0-9]*$/.test(name)) continue;
      seen.add(name);
      const entry = readProcess(Number(name));
      if (entry === undefined) continue;
      processes.push({ ...entry, tmpDirs: !entry.dead && wantsTmpDirs(entry) ? readTmpDirs(entry.pid) : [] });
    }
    if (seen.size === before) break;
  }
  return processes;
}

/**
 * Finds descriptors that this process itself inherited. Node closes its own on exec, but not these: they would reach
 * every program it starts.
 */
export function findInheritedDescriptors(): number[] {
  return readdirSync('/proc/self/fd')
    .filter((name) => {
      // Empty for the descriptor of the listing itself.
      const flags = /flags:\s*([0-7]+)/.exec(readText(`/proc/self/fdinfo/${name}`))?.[1];
      return flags !== undefined && (Number.parseInt(flags, 8) & closeOnExec) === 0 && Number(name) > 2;
    })
    .map(Number);
}

/** Reads every TMPDIR in the initial environment of the process: usually one, but nothing forbids two. */
function readTmpDirs(pid: number): string[] {
  const environ = readScratch(`/proc/${pid}/environ`);
  const found: string[] = [];
  if (environ === undefined) return found;
  for (let at = environ.indexOf('TMPDIR='); at !== -1; at = environ.indexOf('TMPDIR=', at + 1)) {
    if (at > 0 && environ[at - 1] !== 0) continue;
    const end = environ.indexOf(0, at);
    found.push(environ.toString('utf8', at + 'TMPDIR='.length, end === -1 ? environ.length : end));
  }
  return found;
}
