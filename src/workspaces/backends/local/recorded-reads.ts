import type { Dirent, Stats } from 'node:fs';
import { entriesInFolder, lookAtPlace } from '../../../lib/fs/follow-links.ts';
import { readSettings } from '../../../lib/git/git-orders.ts';
import { contentOf, type FollowedNames, identityOf, NamesUnknown } from './followed-names.ts';

/** Looks at the file system, and notes what was looked at. */
export interface NotedLooks {
  lookAt(place: string): Stats | undefined;
  entriesIn(folder: string): readonly Dirent[];
  /** Throws NamesUnknown where that is not known yet. */
  followedIn(folder: string): readonly string[];
  read(path: string): string;
  /** What it takes to look at all of it: one for each place, and more for what is read. */
  cost(): number;
  /** Whether all of it is still as it was. */
  stillHold(): boolean;
}

/** Reading and taking apart so much takes as long as to look at one place. */
const bytesPerLook = 100;

/** Notes which file something is and, of what was read, when it was changed last. */
export function createNotedLooks(followed: FollowedNames): NotedLooks {
  let read = 0;
  const looked = new Map<string, Stats | undefined>();
  const held = new Map<string, string>();
  const told: (() => boolean)[] = [];

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
    followedIn(folder) {
      note(folder);
      const { names, stillHolds } = followed.namesIn(folder);
      told.push(stillHolds);
      if (names instanceof NamesUnknown) throw names;
      return names;
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
      return told.every((stillHolds) => stillHolds());
    },
  };
}
