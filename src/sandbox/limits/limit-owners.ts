import { readText } from '../../lib/fs/if-present.ts';
import type { ProcessEntry } from '../processes/process-table.ts';
import type { ResourceLimits } from './limits.ts';

export interface ResourceUsage {
  readonly memoryMb: number;
  /** Threads, which the kernel counts as pids. */
  readonly pids: number;
}

/** A process that shares its limits with others. */
export interface LimitMember {
  readonly limits: ResourceLimits;
  /** Finds its processes in the process table; none before it has started. */
  find(table: readonly ProcessEntry[]): readonly ProcessEntry[];
}

/** A set of processes whose limits hold for all of them together: the processes of one server in one session. */
export interface LimitOwner<Keeper> {
  /** The group or slice that holds them together. */
  readonly keeper: Keeper;
  readonly size: number;
  /** The limits of the owner. Limits change with the configuration; among different ones the widest hold. */
  limits(): ResourceLimits;
  /** The usage of all members. The same table is searched once. */
  usage(table: readonly ProcessEntry[]): ResourceUsage;
}

/** All owners. An owner exists as long as it has members. */
interface LimitOwners<Keeper> {
  join(name: string, member: LimitMember, make: () => Keeper): LimitOwner<Keeper>;
  /** Removes a member, and says whether it was the last. */
  leave(name: string, member: LimitMember): { readonly last: boolean; readonly owner: LimitOwner<Keeper> } | undefined;
}

export function createOwners<Keeper>(): LimitOwners<Keeper> {
  const all = new Map<string, { readonly owner: LimitOwner<Keeper>; readonly members: Set<LimitMember> }>();
  return {
    join(name, member, make) {
      let known = all.get(name);
      if (known === undefined) {
        const members = new Set<LimitMember>();
        known = { owner: createOwner(make(), members), members };
        all.set(name, known);
      }
      known.members.add(member);
      return known.owner;
    },
    leave(name, member) {
      const known = all.get(name);
      if (known === undefined || !known.members.delete(member)) return undefined;
      const last = known.members.size === 0;
      if (last) all.delete(name);
      return { last, owner: known.owner };
    },
  };
}

function createOwner<Keeper>(keeper: Keeper, members: ReadonlySet<LimitMember>): LimitOwner<Keeper> {
  let seen: { readonly table: readonly ProcessEntry[]; readonly usage: ResourceUsage } | undefined;
  return {
    keeper,
    get size() {
      return members.size;
    },
    limits: () => widestLimits([...members].map(({ limits }) => limits)),
    usage(table) {
      if (seen?.table !== table) {
        seen = { table, usage: measureUsage([...members].flatMap((member) => member.find(table))) };
      }
      return seen.usage;
    },
  };
}

function widestLimits(all: readonly ResourceLimits[]): ResourceLimits {
  const max = (name: keyof ResourceLimits) => Math.max(...all.map((limits) => limits[name]));
  return {
    memoryMb: max('memoryMb'),
    pids: max('pids'),
    cpus: max('cpus'),
    fileMb: max('fileMb'),
    openFiles: max('openFiles'),
    wallSeconds: max('wallSeconds'),
  };
}

/** Finds all processes below a process, without itself. */
export function findDescendants(processes: readonly ProcessEntry[], pid: number): ProcessEntry[] {
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

/** Measures the private memory and the threads of these processes. Pages of files, which many share, do not count. */
export function measureUsage(processes: readonly ProcessEntry[]): ResourceUsage {
  let kilobytes = 0;
  let pids = 0;
  for (const { pid } of processes) {
    const status = readText(`/proc/${pid}/status`);
    for (const name of ['RssAnon', 'RssShmem', 'VmSwap']) kilobytes += readField(status, name);
    pids += readField(status, 'Threads');
  }
  return { memoryMb: kilobytes / 1024, pids };
}

/** Only a line feed is a line end here: the name of a process, in the first line, may hold any other. */
function readField(status: string, name: string): number {
  return Number(new RegExp(`\\n${name}:\\s+(\\d+)`).exec(status)?.[1] ?? 0);
}
