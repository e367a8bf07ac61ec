import { readFileSync } from 'node:fs';
import type { ProcessEntry } from './process-table.ts';

export interface Usage {
  readonly memoryMb: number;
  /** Threads, as the kernel counts what it calls a pid. */
  readonly pids: number;
}

/** Everything below a process, without itself. */
export function descendantsOf(processes: readonly ProcessEntry[], pid: number): ProcessEntry[] {
  const children = new Map<number, ProcessEntry[]>();
  for (const entry of processes) {
    const siblings = children.get(entry.parent);
    if (siblings === undefined) children.set(entry.parent, [entry]);
    else siblings.push(entry);
  }
  const found: ProcessEntry[] = [];
  const open = [pid];
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    for (const child of children.get(next) ?? []) {
      found.push(child);
      open.push(child.pid);
    }
  }
  return found;
}

/** What these processes hold of their own: pages of files, which many share, do not count. */
export function usageOf(processes: readonly ProcessEntry[]): Usage {
  let kilobytes = 0;
  let pids = 0;
  for (const { pid } of processes) {
    const status = readStatus(pid);
    for (const name of ['RssAnon', 'RssShmem', 'VmSwap']) kilobytes += field(status, name);
    pids += field(status, 'Threads');
  }
  return { memoryMb: kilobytes / 1024, pids };
}

function readStatus(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/status`, 'latin1');
  } catch {
    return '';
  }
}

function field(status: string, name: string): number {
  return Number(new RegExp(`^${name}:\\s+(\\d+)`, 'm').exec(status)?.[1] ?? 0);
}
