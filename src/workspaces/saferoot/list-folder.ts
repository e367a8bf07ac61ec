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
  /** The name is not UTF-8: `name` shows it, but no path can say it. */
  readonly unrepresentable?: true;
  /** Only its name is told: it may not be read. */
  readonly unreadable?: true;
}

export interface FolderListing {
  readonly path: string;
  /** Sorted by name. Of a folder too large to be read whole, those that came first. */
  readonly entries: readonly FolderEntry[];
  /** There are more than were asked for. */
  readonly more: boolean;
}

export interface FolderListOptions {
  /** At most this many; 10,000 unless given. */
  readonly limit?: number;
  /** Sizes and times too, which costs a look at each. */
  readonly facts?: boolean;
  /** Names that are left out, as if they were not there. */
  readonly without?: (name: string) => boolean;
}

const namesPerTick = 256;
/** So many names are read before they are sorted; nobody waits for, or holds, more. */
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

/** One more than asked for at most, so that it is known whether there are more. */
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

/** Looked at by its name in the folder that is held; nothing is followed, and nothing needs to be held for it. */
function addFacts(node: Handle, entry: FolderEntry): FolderEntry {
  if (entry.unrepresentable) return entry;
  const stats = lstatSync(pathAt(node, entry.name), { throwIfNoEntry: false });
  if (stats === undefined) return entry;
  // Spelled out: thousands of these are made, and a spread takes several times as long.
  return { name: entry.name, kind: entry.kind, size: stats.size, modifiedMs: stats.mtimeMs };
}
