import { foldName } from '../../../lib/text/fold-name.ts';
import { notToBeChanged, type PathGuard } from '../../path-guard.ts';
import { createFollowedNames, type FollowedNamesOptions } from './followed-names.ts';
import {
  type LedPlace,
  type LedPlaces,
  placesOfLinks,
  placesOfRepositoriesAbove,
  placesOfRepository,
} from './protected-targets.ts';
import { createNotedLooks, type NotedLooks } from './recorded-reads.ts';

/** A guard that also knows the folder: what its settings and links lead to is read only, whatever it is called. */
export interface FolderGuard extends PathGuard {
  /** To be told before each piece of work: what the folder says is looked at again. */
  lookAgain(): void;
  /** Names of the settings that something is taken for, by a link that leads to it or by git. */
  otherNames(names: readonly string[]): readonly (readonly string[])[];
  /** Large folders that are still looked through, where any are: what they say is unknown, and refused, until then. */
  underWay(): Promise<void> | undefined;
  /** How many looks through large folders have come to their end. */
  looksEnded(): number;
  /** The same, for what lies in a folder. */
  prepare(names: readonly string[]): Promise<void> | undefined;
}

/** Folders are many, and few are worked in. Those that were not for longest are forgotten first. */
const mostRemembered = 500;
const longestRoundMs = 20;
/** For all folders on the way to what is asked for: others wait meanwhile. */
const mostCost = 10_000;
const tooMuch = 'git or protected links name more in the folders on the way than can be looked at';

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
  let found: string | undefined;
  const rootOf = () => (found ??= realPath());
  const followed = createFollowedNames({ ...options, onFound: nextRound });
  const above = remembered((looks) => placesOfRepositoriesAbove(rootOf(), looks));
  const folders = new Map<string, KnownFolder>();
  let round = 0;
  let roundBegan = 0;

  function nextRound(): void {
    round++;
    roundBegan = performance.now();
  }

  /** Within a piece of work nothing is looked at twice, unless the work is long. */
  function thisRound(): number {
    if (performance.now() - roundBegan > longestRoundMs) nextRound();
    return round;
  }

  function remembered(look: (looks: NotedLooks) => LedPlaces): Remembered {
    let known: { readonly led: Led; readonly looks: NotedLooks } | undefined;
    let lookedIn = -1;
    return () => {
      const now = thisRound();
      if (known === undefined || (lookedIn !== now && !known.looks.stillHold())) {
        const looks = createNotedLooks(followed);
        const found = look(looks);
        known = { led: ledIn(rootOf(), found, looks.cost()), looks };
      }
      lookedIn = now;
      return known.led;
    };
  }

  function sourcesIn(names: readonly string[]): readonly Remembered[] {
    const folder = [rootOf(), ...names].join('/');
    const isFree = (more: readonly string[]) => guard.refusal('write', [...names, ...more]) === undefined;
    const sources = [remembered((looks) => placesOfLinks(folder, isFree, looks))];
    // Who may write the configuration itself is not kept from what it names.
    if (!isFree(['.git', 'config'])) sources.push(remembered((looks) => placesOfRepository(folder, looks)));
    return names.length === 0 ? [above, ...sources] : sources;
  }

  function knownFolder(path: string, make: () => KnownFolder): KnownFolder {
    const known = folders.get(path) ?? make();
    folders.delete(path);
    folders.set(path, known);
    if (folders.size > mostRemembered) folders.delete(folders.keys().next().value as string);
    return known;
  }

  /** Each folder takes what holds for the one it lies in, and adds what it says itself. */
  function folderAt(names: readonly string[]): KnownFolder {
    const now = thisRound();
    const known = folders.get(names.join('/'));
    if (known?.round === now) return known;
    let folder: KnownFolder | undefined;
    let path = '';
    for (let depth = 0; depth <= names.length; depth++) {
      const name = names[depth - 1] ?? '';
      path = depth < 2 ? name : `${path}/${name}`;
      const within = folder;
      folder = knownFolder(path, () => ({
        key: keyIn(within, name),
        sources: sourcesIn(names.slice(0, depth)),
        round: -1,
        within: undefined,
        leds: [],
        cost: 0,
        reason: undefined,
      }));
      if (folder.round !== now) update(folder, within, now);
    }
    return folder as KnownFolder;
  }

  function reasonAgainst(names: readonly string[]): string | undefined {
    const folder = folderAt(names.slice(0, -1));
    if (names.length === 0) return folder.reason;
    return folder.reason ?? reasonIn(folder.leds, keyIn(folder, names.at(-1) as string));
  }

  /** Of what can be read in great numbers, only what the top of the folder says is looked at. */
  function otherNames(names: readonly string[]): readonly (readonly string[])[] {
    const key = keyOf(names);
    return folderAt([]).sources.flatMap((each) => {
      const known = each().places.get(key)?.known;
      return known === undefined ? [] : [known];
    });
  }

  return {
    isOpened: guard.isOpened,
    otherNames,
    refusal(deed, names) {
      const refused = guard.refusal(deed, names);
      if (refused !== undefined || deed === 'read') return refused;
      const reason = reasonAgainst(names);
      return reason === undefined || guard.isOpened(names) ? undefined : `${notToBeChanged}: ${reason}`;
    },
    lookAgain: nextRound,
    underWay: followed.underWay,
    looksEnded: followed.ended,
    prepare(names) {
      folderAt(names);
      return followed.underWay();
    },
  };
}

type Remembered = () => Led;

interface Led {
  /** By the names that lead there from the folder, in one spelling. */
  readonly places: ReadonlyMap<string, LedPlace>;
  readonly unknown: string | undefined;
  readonly cost: number;
}

/** What a folder says, and what therefore holds for it and all that is in it. */
interface KnownFolder {
  /** The names that lead there, in one spelling. */
  readonly key: string;
  readonly sources: readonly Remembered[];
  /** When the rest was found. */
  round: number;
  within: KnownFolder | undefined;
  /** What it and the folders it lies in say, where they say anything. */
  leds: readonly Led[];
  /** What it takes to look at it and the folders it lies in. */
  cost: number;
  /** Why nothing in it is to be changed. */
  reason: string | undefined;
}

function update(folder: KnownFolder, within: KnownFolder | undefined, round: number): void {
  const all = (within?.cost ?? 0) > mostCost ? [] : folder.sources.map((source) => source());
  const own = all.filter(({ places, unknown }) => places.size > 0 || unknown !== undefined);
  folder.cost = all.reduce((sum, { cost }) => sum + cost, within?.cost ?? 0);
  const leds = within?.leds ?? [];
  folder.within = within;
  folder.leds = own.length === 0 ? leds : [...leds, ...own];
  folder.reason =
    (folder.cost > mostCost ? tooMuch : undefined) ??
    within?.reason ??
    reasonIn(leds, folder.key) ??
    own.find(({ unknown }) => unknown !== undefined)?.unknown;
  // What a folder says may be about one that it lies in.
  if (own.length > 0)
    for (let each = within && folder; each?.within; each = each.within) folder.reason ??= reasonIn(own, each.key);
  folder.round = round;
}

function reasonIn(leds: readonly Led[], key: string): string | undefined {
  for (const { places } of leds) {
    const led = places.get(key);
    if (led !== undefined) return led.reason;
  }
  return undefined;
}

function ledIn(root: string, { places, unknown }: LedPlaces, cost: number): Led {
  const within = [...places].flatMap(([place, led]) =>
    place.startsWith(`${root}/`) ? [[keyOf(place.slice(root.length + 1).split('/')), led] as const] : [],
  );
  return { places: new Map(within), unknown, cost };
}

const keyOf = (names: readonly string[]): string => names.map(foldName).join('/');

/** The same for a name in a folder, of which it is known. */
function keyIn(folder: KnownFolder | undefined, name: string): string {
  return folder === undefined || folder.key === '' ? foldName(name) : `${folder.key}/${foldName(name)}`;
}
