import { type Dirent, lstatSync, type Stats, statSync } from 'node:fs';
import { entriesInFolder, lookAtPlace } from '../../follow-links.ts';
import { readSettings } from '../../git-orders.ts';

/** Looks at the file system, and notes what was looked at. */
export interface NotedLooks {
  lookAt(place: string): Stats | undefined;
  entriesIn(folder: string): readonly Dirent[];
  read(path: string): string;
  /** Whether all of it is still as it was. */
  stillHold(): boolean;
}

/** Notes which file something is and, of what was read, when it was changed last. */
export function createNotedLooks(): NotedLooks {
  const notes = { is: new Map<string, string>(), holds: new Map<string, string>() };

  /** Before it is read: what changes meanwhile is then noticed later. */
  function note(what: keyof typeof marks, place: string): void {
    if (!notes[what].has(place)) notes[what].set(place, marks[what](place));
  }

  return {
    lookAt(place) {
      note('is', place);
      return lookAtPlace(place);
    },
    entriesIn(folder) {
      note('holds', folder);
      return entriesInFolder(folder);
    },
    read(path) {
      note('holds', path);
      return readSettings(path);
    },
    stillHold() {
      for (const [place, mark] of notes.is) if (identityOf(place) !== mark) return false;
      for (const [place, mark] of notes.holds) if (contentOf(place) !== mark) return false;
      return true;
    },
  };
}

const marks = { is: identityOf, holds: contentOf };

function identityOf(place: string): string {
  const stats = quietly(() => lstatSync(place, { throwIfNoEntry: false }));
  return stats === undefined ? '' : `${stats.dev}:${stats.ino}:${stats.mode & 0o170000}`;
}

function contentOf(place: string): string {
  const stats = quietly(() => statSync(place, { throwIfNoEntry: false }));
  return stats === undefined
    ? ''
    : `${stats.dev}:${stats.ino}:${stats.mode}:${stats.size}:${stats.mtimeMs}:${stats.ctimeMs}`;
}

function quietly(look: () => Stats | undefined): Stats | undefined {
  try {
    return look();
  } catch {
    return undefined;
  }
}
