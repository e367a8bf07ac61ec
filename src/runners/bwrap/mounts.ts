import type { Confinement, Shown } from '../confinement.ts';
import { executedLater, type Guarded } from './executed-later.ts';
import { type Pinned, pin, release } from './pinned.ts';
import { isInside, isSystem } from './server-files.ts';
import type { Link, Traced } from './trace.ts';

export interface Mounts {
  /** Those above others first. */
  readonly places: readonly { readonly what: Pinned; readonly writable: boolean }[];
  readonly links: readonly Link[];
  readonly guarded: Guarded;
  release(): void;
}

interface Place {
  readonly shown: Shown;
  readonly writable: boolean;
}

const ofTheKernel = ['/proc', '/sys', '/dev'];

/**
 * What is put into the sandbox beside the system, each held by a handle. Throws when something is no longer there. Where
 * the system inside is another one, nothing of this one is there by itself.
 */
export function holdMounts(confinement: Confinement, server: Traced, hasSystem = true): Mounts {
  const { home, volume, readable, writable } = confinement;
  const homes = volume === undefined ? [home] : [];
  const wanted: Place[] = [
    ...homes.map((shown) => ({ shown, writable: true })),
    ...writable.map((shown) => ({ shown, writable: true })),
    ...[...readable, ...server.shown].map((shown) => ({ shown, writable: false })),
  ];
  const held: Pinned[] = [];
  const hold = (shown: Shown): Pinned => {
    if (ofTheKernel.some((folder) => isInside(shown.real, folder) || isInside(shown.inside, folder))) {
      throw new Error(`A sandbox has this for itself, and is not shown another's: ${shown.inside}`);
    }
    const pinned = pin(shown);
    held.push(pinned);
    return pinned;
  };
  try {
    const places = needed(wanted, hasSystem).map(({ shown, writable }) => ({ what: hold(shown), writable }));
    const own = homes.map((shown) => places.find(({ what }) => what.inside === shown.inside)?.what ?? hold(shown));
    const open = places.flatMap(({ what, writable }) => (writable && !own.includes(what) ? [what] : []));
    const guards = confinement.frozen
      ? []
      : [...own, ...open].filter(({ stats }) => stats.isDirectory()).map(executedLater);
    held.push(...guards.flatMap(({ kept, readOnly }) => [...kept, ...readOnly]));
    const frozen = (confinement.frozen ?? []).map(hold);
    const guarded = {
      kept: guards.flatMap(({ kept }) => kept),
      readOnly: [...guards.flatMap(({ readOnly }) => readOnly), ...frozen],
    };
    return { places, links: missingLinks(server.links, places), guarded, release: () => release(held) };
  } catch (error) {
    release(held);
    throw error;
  }
}

/** What lies in a folder that is shown is there already. */
function missingLinks(links: readonly Link[], places: Mounts['places']): Link[] {
  const unique = new Map(links.map((link) => [link.inside, link]));
  return [...unique.values()].filter(({ inside }) => !places.some(({ what }) => isInside(inside, what.inside)));
}

/** Without those that lie in another one and give no more than it does. */
function needed(wanted: readonly Place[], hasSystem: boolean): Place[] {
  const places = [...wanted].sort((one, other) => depthOf(one) - depthOf(other) || rank(one) - rank(other));
  const kept: Place[] = [];
  for (const place of places) {
    const above = kept.findLast(({ shown }) => isInside(place.shown.inside, shown.inside));
    const given =
      above !== undefined
        ? leadsTo(above, place) && (above.writable || !place.writable)
        : hasSystem && systemGives(place);
    if (!given) kept.push(place);
  }
  return kept;
}

const rank = ({ writable }: Place): number => (writable ? 0 : 1);
const depthOf = ({ shown }: Place): number => shown.inside.split('/').length;

/** A link inside what is shown leads to the right place by itself; nothing can be put upon it. */
function leadsTo(above: Place, { shown }: Place): boolean {
  const direct = above.shown.real + shown.inside.slice(above.shown.inside.length);
  return direct === shown.real || shown.inside !== shown.real;
}

function systemGives({ shown, writable }: Place): boolean {
  return !writable && isSystem(shown.inside);
}
