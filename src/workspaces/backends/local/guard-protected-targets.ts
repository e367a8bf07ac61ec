import { foldName } from '../../../lib/text/fold-name.ts';
import { type PathGuard, readOnlyReason } from '../../path-guard.ts';
import { createFollowedNames, type FollowedNamesOptions } from './followed-names.ts';
import {
  findLinkTargets,
  findRepositoryTargets,
  findTargetsAbove,
  type ProtectedTarget,
  type ProtectedTargets,
} from './protected-targets.ts';
import { createRecordedReads, type RecordedReads } from './recorded-reads.ts';

/** A guard that also knows the folder: what its settings and links lead to is read only, whatever it is called. */
export interface FolderGuard extends PathGuard {
  /** To be told before each piece of work: what the folder says is looked at again. */
  refresh(): void;
  /** Names of the settings that something is taken for, by a link that leads to it or by git. */
  findOtherNames(names: readonly string[]): readonly (readonly string[])[];
  /** Large folders that are still looked through, where any are: what they say is unknown, and refused, until then. */
  pendingScan(): Promise<void> | undefined;
  /** How many looks through large folders have come to their end. */
  countFinishedScans(): number;
  /** The same, for what lies in a folder. */
  prepare(names: readonly string[]): Promise<void> | undefined;
}

/** Folders are many, and few are worked in. Those that were not for longest are forgotten first. */
const maxRemembered = 500;
const maxRoundMs = 20;
/** For all folders on the way to what is asked for: others wait meanwhile. */
const maxCost = 10_000;
const tooMuchReason = 'git or protected links name more in the folders on the way than can be looked at';

/**
 * Adds to the rules by name what the configuration of git and protected links lead to, as they are at the time. Looked at
 * are the repositories around the folder, in it, and in each folder on the way to what is asked for. The path of the
 * folder, without links, is asked for once, when it is first needed.
 */
export function guardLedPlaces(
  realPath: () => string,
  guard: PathGuard,
  options: Pick<FollowedNamesOptions, 'firstAtOnce'> = {},
): FolderGuard {
  let knownRoot: string | undefined;
  const getRoot = () => (knownRoot ??= realPath());
  const followedNames = createFollowedNames({ ...options, onScanned: nextRound });
  const targetsAbove = cacheTargets((looks) => findTargetsAbove(getRoot(), looks));
  const folders = new Map<string, GuardedFolder>();
  let round = 0;
  let roundBegan = 0;

  function nextRound(): void {
    round++;
    roundBegan = performance.now();
  }

  /** Within a piece of work nothing is looked at twice, unless the work is long. */
  function currentRound(): number {
    if (performance.now() - roundBegan > maxRoundMs) nextRound();
    return round;
  }

  function cacheTargets(find: (reads: RecordedReads) => ProtectedTargets): CachedTargets {
    let known: { readonly led: FolderTargets; readonly looks: RecordedReads } | undefined;
    let checkedRound = -1;
    return () => {
      const now = currentRound();
      if (known === undefined || (checkedRound !== now && !known.looks.areCurrent())) {
        const looks = createRecordedReads(followedNames);
        const found = find(looks);
        known = { led: toFolderTargets(getRoot(), found, looks.cost()), looks };
      }
      checkedRound = now;
      return known.led;
    };
  }

  function createSources(names: readonly string[]): readonly CachedTargets[] {
    const folder = [getRoot(), ...names].join('/');
    const isFree = (more: readonly string[]) => guard.refusal('write', [...names, ...more]) === undefined;
    const sources = [cacheTargets((looks) => findLinkTargets(folder, isFree, looks))];
    // Who may write the configuration itself is not kept from what it names.
    if (!isFree(['.git', 'config'])) sources.push(cacheTargets((looks) => findRepositoryTargets(folder, looks)));
    return names.length === 0 ? [targetsAbove, ...sources] : sources;
  }

  function rememberFolder(path: string, make: () => GuardedFolder): GuardedFolder {
    const known = folders.get(path) ?? make();
    folders.delete(path);
    folders.set(path, known);
    if (folders.size > maxRemembered) folders.delete(folders.keys().next().value as string);
    return known;
  }

  /** Each folder takes what holds for the one it lies in, and adds what it says itself. */
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

  /** Of what can be read in great numbers, only what the top of the folder says is looked at. */
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
    refusal(deed, names) {
      const refused = guard.refusal(deed, names);
      if (refused !== undefined || deed === 'read') return refused;
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
  /** By the names that lead there from the folder, in one spelling. */
  readonly byKey: ReadonlyMap<string, ProtectedTarget>;
  readonly unknown: string | undefined;
  readonly cost: number;
}

/** What a folder says, and what therefore holds for it and all that is in it. */
interface GuardedFolder {
  /** The names that lead there, in one spelling. */
  readonly key: string;
  readonly sources: readonly CachedTargets[];
  /** When the rest was found. */
  round: number;
  parent: GuardedFolder | undefined;
  /** What it and the folders it lies in say, where they say anything. */
  targets: readonly FolderTargets[];
  /** What it takes to look at it and the folders it lies in. */
  cost: number;
  /** Why nothing in it is to be changed. */
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
  // What a folder says may be about one that it lies in.
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

/** The same for a name in a folder, of which it is known. */
function childKey(folder: GuardedFolder | undefined, name: string): string {
  return folder === undefined || folder.key === '' ? foldName(name) : `${folder.key}/${foldName(name)}`;
}
