import { isUtf8 } from 'node:buffer';
import { lstatSync } from 'node:fs';
import { setImmediate as turn } from 'node:timers/promises';
import { joinNames } from './check-access.ts';
import type { FileKind } from './file-info.ts';
import { type Handle, pathAt } from './platform/platform-fs.ts';
import { readNames } from './read-names.ts';
import { type RootFolder, requireNode, withPathAsync } from './root-folder.ts';

export interface FolderEntry {
  readonly name: string;
  readonly kind: FileKind;
  readonly size?: number;
  readonly modifiedMs?: number;
  /** The name is not UTF-8: `name` displays it, but no path can contain it. */
  readonly unrepresentable?: true;
  /** Access is refused, so only the name is listed. */
  readonly unreadable?: true;
}

export interface FolderListing {
  readonly path: string;
  /** Sorted by name. A folder too large to be read whole gives the entries that came first. */
  readonly entries: readonly FolderEntry[];
  readonly more: boolean;
}

export interface FolderListOptions {
  /** The largest number of entries; 10,000 by default. */
  readonly limit?: number;
  /** Adds sizes and times, at the cost of one stat per entry. */
  readonly facts?: boolean;
  /** Names that are left out of the listing. */
  readonly without?: (name: string) => boolean;
}

const namesPerTick = 256;
/** Bounds the memory for names that are sorted. */
const maxNames = 100_000;

export function listFolder(folder: RootFolder, path: string, options: FolderListOptions = {}): Promise<FolderListing> {
  const limit = options.limit ?? 10_000;
  return withPathAsync(folder, path, { access: 'read' }, async (end) => {
    const node = requireNode(end);
    const entries = await readEntries(node, Math.max(limit, maxNames), options.without);
    entries.sort((one, other) => (one.name < other.name ? -1 : 1));
    const listed: FolderEntry[] = [];
    for (const entry of entries.slice(0, limit)) {
      const unreadable = folder.checkAccess?.('read', [...end.names, entry.name], entry.kind) !== undefined;
      listed.push(unreadable ? { ...entry, unreadable } : options.facts ? addFacts(node, entry) : entry);
      if (listed.length % namesPerTick === 0) await turn();
    }
    return { path: joinNames(end.names), entries: listed, more: entries.length > limit };
  });
}

/** Reads at most one entry more than the limit, to know whether there are more. */
async function readEntries(
  node: Handle,
  maxEntries: number,
  without?: (name: string) => boolean,
): Promise<FolderEntry[]> {
  const entries: FolderEntry[] = [];
  let count = 0;
  for (const { name, kind } of readNames(node)) {
    if (++count % namesPerTick === 0) await turn();
    const text = name.toString();
    if (without?.(text)) continue;
    entries.push(isUtf8(name) ? { name: text, kind } : { name: text, kind, unrepresentable: true });
    if (entries.length > maxEntries) break;
  }
  return entries;
}

/** Reads size and time by the name in the held folder. Nothing is followed, so nothing needs to be held for it. */
function addFacts(node: Handle, entry: FolderEntry): FolderEntry {
  if (entry.unrepresentable) return entry;
  const stats = lstatSync(pathAt(node, entry.name), { throwIfNoEntry: false });
  if (stats === undefined) return entry;
  // A spread takes several times as long, and there are thousands of entries.
  return { name: entry.name, kind: entry.kind, size: stats.size, modifiedMs: stats.mtimeMs };
}
