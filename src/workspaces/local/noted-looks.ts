import { type Dirent, type Stats, statSync } from 'node:fs';
import { entriesInFolder, lookAtPlace } from '../../follow-links.ts';
import { readSettings } from '../../git-orders.ts';

/** Looks at the file system, and notes what was looked at. */
export interface NotedLooks {
  lookAt(place: string): Stats | undefined;
  entriesIn(folder: string): readonly Dirent[];
  read(path: string): string;
  /** What it takes to look at all of it: one for each place, and more for what is read. */
  cost(): number;
  /** Whether all of it is still as it was. */
  stillHold(): boolean;
}

/** Reading and taking apart so much takes as long as to look at one place. */
const bytesPerLook = 100;

/** Notes which file something is and, of what was read, when it was changed last. */
export function createNotedLooks(): NotedLooks {
  let read = 0;
  const looked = new Map<string, Stats | undefined>();
  const held = new Map<string, string>();

  /** Before it is read: what changes meanwhile is then noticed later. */
  function note(place: string): void {
    if (!held.has(place)) held.set(place, contentOf(place));
  }

  return {
    lookAt(place) {
      if (!looked.has(place)) looked.set(place, lookAtPlace(place));
      return looked.get(place);
    },
    entriesIn(folder) {
      note(folder);
      return entriesInFolder(folder);
    },
    read(path) {
      note(path);
      const text = readSettings(path);
      read += text.length;
      return text;
    },
    cost: () => looked.size + held.size + read / bytesPerLook,
    stillHold() {
      for (const [place, stats] of looked) if (identityOf(lookAtPlace(place)) !== identityOf(stats)) return false;
      for (const [place, mark] of held) if (contentOf(place) !== mark) return false;
      return true;
    },
  };
}

function identityOf(stats: Stats | undefined): string {
  return stats === undefined ? '' : `${stats.dev}:${stats.ino}:${stats.mode & 0o170000}`;
}

function contentOf(place: string): string {
  const stats = statAt(place);
  return stats === undefined
    ? ''
    : `${stats.dev}:${stats.ino}:${stats.mode}:${stats.size}:${stats.mtimeMs}:${stats.ctimeMs}`;
}

function statAt(place: string): Stats | undefined {
  try {
    return statSync(place, { throwIfNoEntry: false });
  } catch {
    return undefined;
  }
}
