import type { Dirent, Stats } from 'node:fs';
import { entriesInFolder, lookAtPlace } from '../../../lib/fs/follow-links.ts';
import { readSettings } from '../../../lib/git/git-orders.ts';
import { contentMark, type FollowedNames, fileIdentity, NamesUnknownError } from './followed-names.ts';

/** Looks at the file system, and notes what was looked at. */
export interface RecordedReads {
  lookAt(place: string): Stats | undefined;
  entriesIn(folder: string): readonly Dirent[];
  /** Throws NamesUnknown where that is not known yet. */
  followedIn(folder: string): readonly string[];
  read(path: string): string;
  /** What it takes to look at all of it: one for each place, and more for what is read. */
  cost(): number;
  /** Whether all of it is still as it was. */
  areCurrent(): boolean;
}

/** Reading and taking apart so much takes as long as to look at one place. */
const charactersPerStat = 100;

/** Notes which file something is and, of what was read, when it was changed last. */
export function createRecordedReads(followed: FollowedNames): RecordedReads {
  let charactersRead = 0;
  const statsByPath = new Map<string, Stats | undefined>();
  const contentMarks = new Map<string, string>();
  const nameChecks: (() => boolean)[] = [];

  /** Before it is read: what changes meanwhile is then noticed later. */
  function recordContent(place: string): void {
    if (!contentMarks.has(place)) contentMarks.set(place, contentMark(place));
  }

  return {
    lookAt(place) {
      if (!statsByPath.has(place)) statsByPath.set(place, lookAtPlace(place));
      return statsByPath.get(place);
    },
    entriesIn(folder) {
      recordContent(folder);
      return entriesInFolder(folder);
    },
    followedIn(folder) {
      recordContent(folder);
      const { names, isCurrent } = followed.findNames(folder);
      nameChecks.push(isCurrent);
      if (names instanceof NamesUnknownError) throw names;
      return names;
    },
    read(path) {
      recordContent(path);
      const text = readSettings(path);
      charactersRead += text.length;
      return text;
    },
    cost: () => statsByPath.size + contentMarks.size + charactersRead / charactersPerStat,
    areCurrent() {
      for (const [place, stats] of statsByPath)
        if (fileIdentity(lookAtPlace(place)) !== fileIdentity(stats)) return false;
      for (const [place, mark] of contentMarks) if (contentMark(place) !== mark) return false;
      return nameChecks.every((isCurrent) => isCurrent());
    },
  };
}
