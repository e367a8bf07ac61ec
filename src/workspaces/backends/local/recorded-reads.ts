import type { Dirent, Stats } from 'node:fs';
import { listFolder, lstatIfPresent } from '../../../lib/fs/follow-links.ts';
import { readGitConfigFile } from '../../../lib/git/configured-paths.ts';
import { contentMark, type FollowedNames, fileIdentity, NamesUnknownError } from './followed-names.ts';

/** Reads the file system, and records what was read. */
export interface RecordedReads {
  lookAt(path: string): Stats | undefined;
  entriesIn(folder: string): readonly Dirent[];
  /** Throws NamesUnknownError where that is not known yet. */
  followedIn(folder: string): readonly string[];
  read(path: string): string;
  /** The cost of all reads: one for each path, and more for content. */
  cost(): number;
  /** Tells whether everything that was read is unchanged. */
  areCurrent(): boolean;
}

/** The number of characters that take as long to read and parse as one stat. */
const charactersPerStat = 100;

/** Records the identity of each file and, for content, when it was last changed. */
export function createRecordedReads(followed: FollowedNames): RecordedReads {
  let charactersRead = 0;
  const statsByPath = new Map<string, Stats | undefined>();
  const contentMarks = new Map<string, string>();
  const nameChecks: (() => boolean)[] = [];

  /** Records the mark before reading, so that a change meanwhile is noticed. */
  function recordContent(path: string): void {
    if (!contentMarks.has(path)) contentMarks.set(path, contentMark(path));
  }

  return {
    lookAt(path) {
      if (!statsByPath.has(path)) statsByPath.set(path, lstatIfPresent(path));
      return statsByPath.get(path);
    },
    entriesIn(folder) {
      recordContent(folder);
      return listFolder(folder);
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
      const text = readGitConfigFile(path);
      charactersRead += text.length;
      return text;
    },
    cost: () => statsByPath.size + contentMarks.size + charactersRead / charactersPerStat,
    areCurrent() {
      for (const [path, stats] of statsByPath)
        if (fileIdentity(lstatIfPresent(path)) !== fileIdentity(stats)) return false;
      for (const [path, mark] of contentMarks) if (contentMark(path) !== mark) return false;
      return nameChecks.every((isCurrent) => isCurrent());
    },
  };
}
