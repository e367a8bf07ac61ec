import { foldName } from '../../../lib/text/fold-name.ts';
import { type PathGuard, readOnlyReason } from '../../path-guard.ts';
import { createFollowedNames, type FollowedNamesOptions } from './followed-names.ts';
import {
  createRecordedReads,
  findLinkTargets,
  findRepositoryTargets,
  findTargetsAbove,
  type ProtectedTarget,
  type ProtectedTargets,
  type RecordedReads,
} from './protected-targets.ts';

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
