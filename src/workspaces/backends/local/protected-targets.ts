import type { Dirent, Stats } from 'node:fs';
import { dirname } from 'node:path';
import { findLinks, followLinks, listFolder, lstatIfPresent } from '../../../lib/fs/follow-links.ts';
import { findGitLinks, findProtectedLinks } from '../../../lib/fs/protected-paths.ts';
import {
  type ConfiguredPath,
  createGitConfigReader,
  findGitFolder,
  GitConfigError,
  listConfiguredPaths,
  listGitFolders,
  readGitConfigFile,
} from '../../../lib/git/configured-paths.ts';
import { contentMark, type FollowedNames, fileIdentity, NamesUnknownError } from './followed-names.ts';

/** A path that may not be changed because of what leads to it. */
export interface ProtectedTarget {
  /** The reason, as the rest of a sentence. */
  readonly reason: string;
  /** The names of the settings file that it stands for. */
  readonly knownAs?: readonly string[];
}

const namedByGit: ProtectedTarget = { reason: 'the git configuration uses it' };
const linkReason = 'a protected symbolic link leads to it';

/** Limits for one repository, which is read without a pause. */
const readLimits = { bytes: 512 * 1024, named: 1000 };

type TargetMap = Map<string, ProtectedTarget>;
const linkTarget = (link: string): ProtectedTarget => ({ reason: linkReason, knownAs: link.split('/').slice(-2) });

/** Targets by absolute path. */
export interface ProtectedTargets {
  readonly targets: ReadonlyMap<string, ProtectedTarget>;
  /** The reason why nothing may be changed, when the targets are unknown. */
  readonly unknown?: string;
}

/** Finds targets of the git configuration in a folder, and of links among what git follows there. */
export function findRepositoryTargets(folder: string, reads: RecordedReads): ProtectedTargets {
  const targets = new Map<string, ProtectedTarget>();
  if (reads.lookAt(`${folder}/.git`) === undefined) return { targets };
  try {
    const source = createGitConfigReader(reads.read, readLimits);
    const gitFolder = findGitFolder(folder, source.read);
    for (const order of listConfiguredPaths(folder, gitFolder, source)) addGitOrder(order, targets, reads);
    for (const each of listGitFolders(gitFolder, source.read)) {
      for (const link of findGitLinks(each, reads)) addTarget(link, linkTarget(link), targets, reads);
    }
    return { targets };
  } catch (error) {
    if (!(error instanceof GitConfigError)) throw error;
    return { targets, unknown: `the configuration of git ${error.what}` };
  }
}

/** Finds the targets of each repository above a folder. */
export function findTargetsAbove(folder: string, reads: RecordedReads): ProtectedTargets {
  const above = dirname(folder);
  if (above === folder) return { targets: new Map() };
  const [here, further] = [findRepositoryTargets(above, reads), findTargetsAbove(above, reads)];
  const unknown = here.unknown ?? further.unknown;
  return { targets: new Map([...here.targets, ...further.targets]), ...(unknown === undefined ? {} : { unknown }) };
}

/** Finds targets of links with a protected name in a folder, or inside a folder with such a name. */
export function findLinkTargets(
  folder: string,
  isFree: (names: readonly string[]) => boolean,
  reads: RecordedReads,
): ProtectedTargets {
  const targets = new Map<string, ProtectedTarget>();
  try {
    for (const link of findProtectedLinks(folder, isFree, reads)) addTarget(link, linkTarget(link), targets, reads);
    return { targets };
  } catch (error) {
    if (!(error instanceof NamesUnknownError)) throw error;
    return { targets, unknown: error.message };
  }
}

function addGitOrder({ path, kind }: ConfiguredPath, targets: TargetMap, reads: RecordedReads): void {
  if (kind !== 'path' && kind !== 'word') {
    const target: ProtectedTarget = kind === 'settings' ? { ...namedByGit, knownAs: ['.git', 'config'] } : namedByGit;
    const resolved = addTarget(path, target, targets, reads);
    if (kind !== 'folder' || resolved === undefined) return;
    for (const link of findLinks(resolved, reads)) addTarget(link, namedByGit, targets, reads);
    return;
  }
  const followed = followLinks(path, reads.lookAt);
  if (followed === undefined) return;
  // A word may be anything. One with a slash is reserved for the file it may name.
  const isProtected = followed.missing === undefined ? reads.lookAt(followed.realPath)?.isFile() : kind === 'path';
  if (isProtected) for (const each of [followed.realPath, ...followed.links]) targets.set(each, namedByGit);
}

/** A missing folder on the path could be made as a link, so it may not be made at all. */
function addTarget(
  path: string,
  target: ProtectedTarget,
  targets: TargetMap,
  reads: RecordedReads,
): string | undefined {
  const followed = followLinks(path, reads.lookAt);
  if (followed === undefined) return undefined;
  for (const each of [followed.realPath, ...followed.links]) targets.set(each, target);
  if (followed.missing !== undefined) targets.set(followed.missing, target);
  return followed.realPath;
}

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
