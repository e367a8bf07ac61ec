import { foldName } from '../../text/fold-name.ts';
import { notToBeChanged, type PathGuard } from '../path-guard.ts';
import {
  type LedPlace,
  type LedPlaces,
  placesOfLinks,
  placesOfRepositoriesAbove,
  placesOfRepository,
} from './led-places.ts';
import { createNotedLooks, type NotedLooks } from './noted-looks.ts';

/** A guard that also knows the folder: what its settings and links lead to is read only, whatever it is called. */
export interface FolderGuard extends PathGuard {
  /** To be told before each piece of work: what the folder says is looked at again. */
  lookAgain(): void;
  /** Names of the settings that something is taken for, by a link that leads to it or by git. */
  otherNames(names: readonly string[]): readonly (readonly string[])[];
}

/** Folders are many, and few are worked in. */
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
export function guardLedPlaces(realPath: () => string, guard: PathGuard): FolderGuard {
  let found: string | undefined;
  const rootOf = () => (found ??= realPath());
  const above = remembered((looks) => placesOfRepositoriesAbove(rootOf(), looks));
  const folders = new Map<string, readonly Remembered[]>();
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
        const looks = createNotedLooks();
        const found = look(looks);
        known = { led: ledIn(rootOf(), found, looks.cost()), looks };
      }
      lookedIn = now;
      return known.led;
    };
  }

  function placesFor(names: readonly string[]): readonly Remembered[] {
    const key = names.join('/');
    const known = folders.get(key);
    if (known !== undefined) return known;
    const folder = [rootOf(), ...names].join('/');
    const isFree = (more: readonly string[]) => guard.refusal('write', [...names, ...more]) === undefined;
    const made = [remembered((looks) => placesOfLinks(folder, isFree, looks))];
    // Who may write the configuration itself is not kept from what it names.
    if (!isFree(['.git', 'config'])) made.push(remembered((looks) => placesOfRepository(folder, looks)));
    if (folders.size >= mostRemembered) folders.clear();
    folders.set(key, made);
    return made;
  }

  function reasonAgainst(names: readonly string[]): string | undefined {
    const keys = keysOf(names);
    let cost = 0;
    const look = (each: Remembered) => {
      const { places, unknown, cost: ofThis } = each();
      cost += ofThis;
      if (cost > mostCost) return tooMuch;
      return unknown ?? (places.size === 0 ? undefined : keys.map((key) => places.get(key)?.reason).find(Boolean));
    };
    const first = look(above);
    if (first !== undefined) return first;
    for (let depth = 0; depth === 0 || depth < names.length; depth++) {
      for (const each of placesFor(names.slice(0, depth))) {
        const reason = look(each);
        if (reason !== undefined) return reason;
      }
    }
    return undefined;
  }

  /** Of what can be read in great numbers, only what the top of the folder says is looked at. */
  function otherNames(names: readonly string[]): readonly (readonly string[])[] {
    const key = foldName(names.join('/'));
    return [above, ...placesFor([])].flatMap((each) => {
      const known = each().places.get(key)?.known;
      return known === undefined ? [] : [known];
    });
  }

  return {
    isOpened: guard.isOpened,
    otherNames,
    refusal(deed, names) {
      const refused = guard.refusal(deed, names);
      if (refused !== undefined || deed === 'read' || guard.isOpened(names)) return refused;
      const reason = reasonAgainst(names);
      return reason === undefined ? undefined : `${notToBeChanged}: ${reason}`;
    },
    lookAgain: nextRound,
  };
}

type Remembered = () => Led;

interface Led {
  /** By the names that lead there from the folder, in one spelling. */
  readonly places: ReadonlyMap<string, LedPlace>;
  readonly unknown: string | undefined;
  readonly cost: number;
}

function ledIn(root: string, { places, unknown }: LedPlaces, cost: number): Led {
  const within = [...places].flatMap(([place, led]) =>
    place.startsWith(`${root}/`) ? [[foldName(place.slice(root.length + 1)), led] as const] : [],
  );
  return { places: new Map(within), unknown, cost };
}

/** The folders on the way and the thing itself: what holds for a folder holds for what is in it. */
function keysOf(names: readonly string[]): string[] {
  return names.map((_, at) => foldName(names.slice(0, at + 1).join('/')));
}
