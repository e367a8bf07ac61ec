import { isUtf8 } from 'node:buffer';
import { lstatSync } from 'node:fs';
import { setImmediate as turn } from 'node:timers/promises';
import { asPath } from './check-access.ts';
import type { Kind } from './file-info.ts';
import { at, type Handle } from './platform/platform-fs.ts';
import { namesIn } from './read-names.ts';
import { type Folder, found, walkedUntil } from './root-folder.ts';

export interface Entry {
  readonly name: string;
  readonly kind: Kind;
  readonly size?: number;
  readonly modifiedMs?: number;
  /** The name is not UTF-8: `name` shows it, but no path can say it. */
  readonly unrepresentable?: true;
  /** Only its name is told: it may not be read. */
  readonly closed?: true;
}

export interface Listing {
  readonly path: string;
  /** Sorted by name. Of a folder too large to be read whole, those that came first. */
  readonly entries: readonly Entry[];
  /** There are more than were asked for. */
  readonly more: boolean;
}

export interface ListOptions {
  /** At most this many; 10,000 unless given. */
  readonly limit?: number;
  /** Sizes and times too, which costs a look at each. */
  readonly facts?: boolean;
  /** Names that are left out, as if they were not there. */
  readonly without?: (name: string) => boolean;
}

const namesPerTurn = 256;
/** So many names are read before they are sorted; nobody waits for, or holds, more. */
const mostNames = 100_000;

export function list(folder: Folder, path: string, options: ListOptions = {}): Promise<Listing> {
  const limit = options.limit ?? 10_000;
  return walkedUntil(folder, path, { deed: 'read' }, async (end) => {
    const node = found(end);
    const entries = await namesOf(node, Math.max(limit, mostNames), options.without);
    entries.sort((one, other) => (one.name < other.name ? -1 : 1));
    const shown: Entry[] = [];
    for (const entry of entries.slice(0, limit)) {
      const closed = folder.admit?.('read', [...end.inside, entry.name], entry.kind) !== undefined;
      shown.push(closed ? { ...entry, closed } : options.facts ? withFacts(node, entry) : entry);
      if (shown.length % namesPerTurn === 0) await turn();
    }
    return { path: asPath(end.inside), entries: shown, more: entries.length > limit };
  });
}

/** One more than asked for at most, so that it is known whether there are more. */
async function namesOf(node: Handle, most: number, without?: (name: string) => boolean): Promise<Entry[]> {
  const entries: Entry[] = [];
  let read = 0;
  for (const { name, kind } of namesIn(node)) {
    if (++read % namesPerTurn === 0) await turn();
    const text = name.toString();
    if (without?.(text)) continue;
    entries.push(isUtf8(name) ? { name: text, kind } : { name: text, kind, unrepresentable: true });
    if (entries.length > most) break;
  }
  return entries;
}

/** Looked at by its name in the folder that is held; nothing is followed, and nothing needs to be held for it. */
function withFacts(node: Handle, entry: Entry): Entry {
  if (entry.unrepresentable) return entry;
  const stats = lstatSync(at(node, entry.name), { throwIfNoEntry: false });
  if (stats === undefined) return entry;
  // Spelled out: thousands of these are made, and a spread takes several times as long.
  return { name: entry.name, kind: entry.kind, size: stats.size, modifiedMs: stats.mtimeMs };
}
