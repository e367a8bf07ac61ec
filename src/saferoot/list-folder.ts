import { isUtf8 } from 'node:buffer';
import { type Dirent, opendirSync } from 'node:fs';
import { setImmediate as turn } from 'node:timers/promises';
import { type Kind, kindOf } from './facts.ts';
import { type Folder, found, walkedUntil } from './folder.ts';
import type { Handle } from './ground.ts';
import { SafeRootError } from './saferoot-error.ts';

export interface Entry {
  readonly name: string;
  readonly kind: Kind;
  /** The name is not UTF-8: `name` shows it, but no path can say it. */
  readonly unrepresentable?: true;
}

export interface Listing {
  /** As they come, in no order. */
  readonly entries: readonly Entry[];
  /** There are more than were asked for. */
  readonly more: boolean;
}

export interface ListOptions {
  /** At most this many; 10,000 unless given. */
  readonly limit?: number;
}

export function list(folder: Folder, path: string, options: ListOptions = {}): Promise<Listing> {
  const limit = options.limit ?? 10_000;
  return walkedUntil(folder, path, {}, async (end) => {
    const entries: Entry[] = [];
    for await (const entry of entriesIn(found(end), { count: 0 })) {
      if (entries.length >= limit) return { entries, more: true };
      const shown = { name: entry.name.toString(), kind: kindOf(entry) };
      entries.push(isUtf8(entry.name) ? shown : { ...shown, unrepresentable: true });
    }
    return { entries, more: false };
  });
}

/** An entry with its name as the bytes it is. */
export type RawEntry = Omit<Dirent, 'name'> & { readonly name: Buffer };

/** Counts what was read, over all folders of one operation. */
export interface Pace {
  count: number;
}

const entriesPerTurn = 256;

/** What lies in a folder. Reading is quick but not endless: others get their turn in between. */
export async function* entriesIn(handle: Handle, pace: Pace): AsyncGenerator<RawEntry> {
  if (!handle.stats.isDirectory()) throw new SafeRootError('NOT_A_DIRECTORY');
  // Node reads names as bytes when asked to; its types do not say so.
  const directory = opendirSync(handle.path, { encoding: 'buffer' as BufferEncoding, bufferSize: 256 });
  try {
    for (;;) {
      const entry = directory.readSync();
      if (entry === null) return;
      yield entry as unknown as RawEntry;
      if (++pace.count % entriesPerTurn === 0) await turn();
    }
  } finally {
    directory.closeSync();
  }
}
