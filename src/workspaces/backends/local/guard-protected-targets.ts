import type { Dirent, Stats } from 'node:fs';
import { dirname } from 'node:path';
import {
  findGitLinks,
  findLinks,
  findProtectedLinks,
  followLinks,
  listFolder,
  lstatIfPresent,
} from '../../../lib/fs/protected-paths.ts';
import {
  type ConfiguredPath,
  createGitConfigReader,
  findGitFolder,
  GitConfigError,
  listConfiguredPaths,
  listGitFolders,
  readGitConfigFile,
} from '../../../lib/git/configured-paths.ts';
import { foldName } from '../../../lib/text/fold-name.ts';
import { type PathGuard, readOnlyReason } from '../../path-guard.ts';
import {
  contentMark,
  createFollowedNames,
  type FollowedNames,
  type FollowedNamesOptions,
  fileIdentity,
  NamesUnknownError,
} from './followed-names.ts';

/** A guard that also knows the folder: targets of its settings and links are read only, whatever they are called. */
export interface FolderGuard extends PathGuard {
  /** Called before each operation, so that the folder is read again. */
  refresh(): void;
  /** Finds the settings files that a path stands for, by a link or by git. */
  findOtherNames(names: readonly string[]): readonly (readonly string[])[];
  /** The running scan of a large folder, if any: until it ends, its targets are unknown and changes are refused. */
  pendingScan(): Promise<void> | undefined;
  countFinishedScans(): number;
  /** The scan that runs for the entries of a folder, if any. */
  prepare(names: readonly string[]): Promise<void> | undefined;
}

/** The number of cached folders; the least recently used are dropped first. */
const maxRemembered = 500;
const maxRoundMs = 20;
/** The largest cost for all folders of a path, while everything else waits. */
const maxCost = 10_000;
const tooMuchReason = 'the folders on this path contain more paths protected by git or links than can be checked';

/**
 * Adds to the rules by name the current targets of git configuration and protected links. Read are the repositories
 * above the folder, in it, and in each folder of the path. `realPath` is called once, when it is first needed.
 */
export function guardProtectedTargets(
  realPath: () => string,
  guard: PathGuard,
  options: Pick<FollowedNamesOptions, 'firstAtOnce'> = {},
): FolderGuard {
  let knownRoot: string | undefined;
  const getRoot = () => (knownRoot ??= realPath());
  const followedNames = createFollowedNames({ ...options, onScanned: nextRound });
  const targetsAbove = cacheTargets((reads) => findTargetsAbove(getRoot(), reads));
  const folders = new Map<string, GuardedFolder>();
  let round = 0;
  let roundBegan = 0;

  function nextRound(): void {
    round++;
    roundBegan = performance.now();
  }

  /** Reads nothing twice within an operation, unless it is long. */
  function currentRound(): number {
    if (performance.now() - roundBegan > maxRoundMs) nextRound();
    return round;
  }

  function cacheTargets(find: (reads: RecordedReads) => ProtectedTargets): CachedTargets {
    let known: { readonly targets: FolderTargets; readonly reads: RecordedReads } | undefined;
    let checkedRound = -1;
    return () => {
      const now = currentRound();
      if (known === undefined || (checkedRound !== now && !known.reads.areCurrent())) {
        const reads = createRecordedReads(followedNames);
        const found = find(reads);
        known = { targets: toFolderTargets(getRoot(), found, reads.cost()), reads };
      }
      checkedRound = now;
      return known.targets;
    };
  }

  function createSources(names: readonly string[]): readonly CachedTargets[] {
    const folder = [getRoot(), ...names].join('/');
    const isFree = (more: readonly string[]) => guard.refusal('write', [...names, ...more]) === undefined;
    const sources = [cacheTargets((reads) => findLinkTargets(folder, isFree, reads))];
    // A session that may write the configuration may also write what it names.
    if (!isFree(['.git', 'config'])) sources.push(cacheTargets((reads) => findRepositoryTargets(folder, reads)));
    return names.length === 0 ? [targetsAbove, ...sources] : sources;
  }

  function rememberFolder(path: string, make: () => GuardedFolder): GuardedFolder {
    const known = folders.get(path) ?? make();
    folders.delete(path);
    folders.set(path, known);
    if (folders.size > maxRemembered) folders.delete(folders.keys().next().value as string);
    return known;
  }

  /** Each folder inherits the targets of its parent and adds its own. */
  function findFolder(names: readonly string[]): GuardedFolder {
    const now = currentRound();
    const known = folders.get(names.join('/'));
    if (known?.round === now) return known;
    let folder: GuardedFolder | undefined;
    let path = '';
    for (let depth = 0; depth <= names.length; depth++) {
      const name = names[depth - 1] ?? '';
      path = depth < 2 ? name : `${path}/${name}`;
      const parent = folder;
      folder = rememberFolder(path, () => ({
        key: childKey(parent, name),
        sources: createSources(names.slice(0, depth)),
        round: -1,
        parent: undefined,
        targets: [],
        cost: 0,
        reason: undefined,
      }));
      if (folder.round !== now) updateFolder(folder, parent, now);
    }
    return folder as GuardedFolder;
  }

  function findReasonAgainst(names: readonly string[]): string | undefined {
    const folder = findFolder(names.slice(0, -1));
    if (names.length === 0) return folder.reason;
    return folder.reason ?? findReason(folder.targets, childKey(folder, names.at(-1) as string));
  }

  /** Uses only the top folder, since many files may be read. */
  function findOtherNames(names: readonly string[]): readonly (readonly string[])[] {
    const key = targetKey(names);
    return findFolder([]).sources.flatMap((each) => {
      const known = each().byKey.get(key)?.knownAs;
      return known === undefined ? [] : [known];
    });
  }

  return {
    isOpened: guard.isOpened,
    findOtherNames,
    refusal(access, names) {
      const refused = guard.refusal(access, names);
      if (refused !== undefined || access === 'read') return refused;
      const reason = findReasonAgainst(names);
      return reason === undefined || guard.isOpened(names) ? undefined : `${readOnlyReason}: ${reason}`;
    },
    refresh: nextRound,
    pendingScan: followedNames.pendingScan,
    countFinishedScans: followedNames.countFinishedScans,
    prepare(names) {
      findFolder(names);
      return followedNames.pendingScan();
    },
  };
}

type CachedTargets = () => FolderTargets;

interface FolderTargets {
  /** Targets by their folded names, relative to the root. */
  readonly byKey: ReadonlyMap<string, ProtectedTarget>;
  readonly unknown: string | undefined;
  readonly cost: number;
}

/** A folder with the targets that hold for it and its entries. */
interface GuardedFolder {
  readonly key: string;
  readonly sources: readonly CachedTargets[];
  round: number;
  parent: GuardedFolder | undefined;
  /** The targets of the folder and its parents, where there are any. */
  targets: readonly FolderTargets[];
  /** The cost of reading it and its parents. */
  cost: number;
  /** The reason why nothing in it may be changed. */
  reason: string | undefined;
}

function updateFolder(folder: GuardedFolder, parent: GuardedFolder | undefined, round: number): void {
  const all = (parent?.cost ?? 0) > maxCost ? [] : folder.sources.map((source) => source());
  const own = all.filter(({ byKey, unknown }) => byKey.size > 0 || unknown !== undefined);
  folder.cost = all.reduce((sum, { cost }) => sum + cost, parent?.cost ?? 0);
  const inherited = parent?.targets ?? [];
  folder.parent = parent;
  folder.targets = own.length === 0 ? inherited : [...inherited, ...own];
  folder.reason =
    (folder.cost > maxCost ? tooMuchReason : undefined) ??
    parent?.reason ??
    findReason(inherited, folder.key) ??
    own.find(({ unknown }) => unknown !== undefined)?.unknown;
  // A target may be a parent of the folder.
  if (own.length > 0)
    for (let each = parent && folder; each?.parent; each = each.parent) folder.reason ??= findReason(own, each.key);
  folder.round = round;
}

function findReason(targets: readonly FolderTargets[], key: string): string | undefined {
  for (const { byKey } of targets) {
    const target = byKey.get(key);
    if (target !== undefined) return target.reason;
  }
  return undefined;
}

function toFolderTargets(root: string, { targets, unknown }: ProtectedTargets, cost: number): FolderTargets {
  const inside = [...targets].flatMap(([path, target]) =>
    path.startsWith(`${root}/`) ? [[targetKey(path.slice(root.length + 1).split('/')), target] as const] : [],
  );
  return { byKey: new Map(inside), unknown, cost };
}

const targetKey = (names: readonly string[]): string => names.map(foldName).join('/');

function childKey(folder: GuardedFolder | undefined, name: string): string {
  return folder === undefined || folder.key === '' ? foldName(name) : `${folder.key}/${foldName(name)}`;
}

/** A path that may not be changed because of what leads to it. */
interface ProtectedTarget {
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
interface ProtectedTargets {
  readonly targets: ReadonlyMap<string, ProtectedTarget>;
  /** The reason why nothing may be changed, when the targets are unknown. */
  readonly unknown?: string;
}

/** Finds targets of the git configuration in a folder, and of links among what git follows there. */
function findRepositoryTargets(folder: string, reads: RecordedReads): ProtectedTargets {
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
function findTargetsAbove(folder: string, reads: RecordedReads): ProtectedTargets {
  const above = dirname(folder);
  if (above === folder) return { targets: new Map() };
  const [here, further] = [findRepositoryTargets(above, reads), findTargetsAbove(above, reads)];
  const unknown = here.unknown ?? further.unknown;
  return { targets: new Map([...here.targets, ...further.targets]), ...(unknown === undefined ? {} : { unknown }) };
}

/** Finds targets of links with a protected name in a folder, or inside a folder with such a name. */
function findLinkTargets(
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
interface RecordedReads {
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
function createRecordedReads(followed: FollowedNames): RecordedReads {
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
