import { type Dirent, opendirSync } from 'node:fs';
import { join } from 'node:path';
import { setImmediate as giveWay } from 'node:timers/promises';

export interface FetchedEntry {
  readonly path: string;
  readonly entry: Dirent;
}

/** Others get their turn after so many entries. */
const atOnce = 200;

/** Everything below a folder, no link followed. What goes away meanwhile is left out: a tool may still be at work there. */
export async function* fetchedEntries(folder: string): AsyncGenerator<FetchedEntry> {
  const open = [folder];
  let seen = 0;
  for (let current = open.pop(); current !== undefined; current = open.pop()) {
    for (const entry of entriesOf(current)) {
      if (++seen % atOnce === 0) await giveWay();
      const path = join(current, entry.name);
      if (entry.isDirectory()) open.push(path);
      yield { path, entry };
    }
  }
}

/** Read piece by piece: a folder may have more names than memory holds. */
function* entriesOf(folder: string): Generator<Dirent> {
  let names: ReturnType<typeof opendirSync>;
  try {
    names = opendirSync(folder, { bufferSize: atOnce });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return;
    throw error;
  }
  try {
    for (let entry = names.readSync(); entry !== null; entry = names.readSync()) yield entry;
  } finally {
    names.closeSync();
  }
}
