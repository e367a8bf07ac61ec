import { realpathSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Confinement, Shown } from '../common/confinement.ts';
import { machineSettings } from '../common/machine-credentials.ts';
import { lookAt } from './guard/find-protected-names.ts';
import type { Guarded } from './guard/mount-collector.ts';
import { giveUpNames, type Placeholder } from './guard/placeholders.ts';
import { executedLater } from './guard/protect-config-files.ts';
import { type GuardedFolder, type GuardSpot, spotOf, type Watched } from './guard/watch-mount-points.ts';
import { lookWithin, type Pinned, pin, release } from './pinned-path.ts';
import { isInside, isSystem, type Link, type Traced } from './visibility-filter.ts';

export interface Mounts {
  /** Those above others first. */
  readonly places: readonly Mount[];
  readonly links: readonly Link[];
  readonly guarded: Guarded;
  /** What has to stay as it is while they are there. */
  readonly watched: Watched;
  /** Lets go of what was held for the mounting. */
  release(): void;
  /** Removes what was put in the place of missing names, once no process needs the mounts any more. */
  clearAway(): void;
}

export interface Mount {
  readonly what: Pinned;
  readonly writable: boolean;
}

interface Place {
  readonly shown: Shown;
  readonly writable: boolean;
}

const ofTheKernel = ['/proc', '/sys', '/dev'];

/**
 * What is put into the sandbox beside the system, each held by a handle. Throws when something is no longer there. Where
 * the system inside is another one, nothing of this one is there by itself. Files that are shown in place of others are
 * written to the folder for copies.
 */
export async function holdMounts(
  confinement: Confinement,
  server: Traced,
  copies: string,
  hasSystem = true,
): Promise<Mounts> {
  const { home, volume, readable, writable } = confinement;
  const homes = volume === undefined ? [home] : [];
  const wanted: Place[] = [
    ...homes.map((shown) => ({ shown, writable: true })),
    ...writable.map((shown) => ({ shown, writable: true })),
    ...[...readable, ...server.shown].map((shown) => ({ shown, writable: false })),
  ];
  const held: Pinned[] = [];
  const placeholders: Placeholder[] = [];
  const kept: Pinned[] = [];
  const readOnly: Pinned[] = [];
  const spots: GuardSpot[] = [];
  const folders: GuardedFolder[] = [];
  let copied = 0;
  const showCopy = (content: Buffer, inside: string): Pinned => {
    const real = join(realpathSync.native(copies), `shown-${++copied}`);
    writeFileSync(real, content, { flag: 'wx', mode: 0o644 });
    return pin({ real, inside });
  };
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
    const guards = confinement.frozen ? [] : [...own, ...open].filter(({ stats }) => stats.isDirectory());
    for (const folder of guards) {
      const found = await executedLater(folder, showCopy);
      held.push(...found.kept, ...found.readOnly);
      placeholders.push(...found.placeholders);
      kept.push(...found.kept);
      readOnly.push(...found.readOnly);
      spots.push(...found.spots);
      folders.push(...found.folders);
    }
    readOnly.push(...(confinement.frozen ?? []).map(hold));
    const masks = masksOf([...(confinement.masked ?? []), ...machineSettings()], places, hasSystem);
    const empty = masks.map(({ inside }) => showCopy(Buffer.alloc(0), inside));
    held.push(...empty);
    spots.push(...masks.map(({ spot }) => spot));
    const isMasked = ({ inside }: Pinned) => masks.some((mask) => mask.inside === inside);
    return {
      places,
      links: missingLinks(server.links, places),
      guarded: { kept, readOnly: [...readOnly.filter((each) => !isMasked(each)), ...empty] },
      watched: { spots, folders },
      release: () => release(held),
      clearAway: () => giveUpNames(placeholders),
    };
  } catch (error) {
    release(held);
    giveUpNames(placeholders);
    throw error;
  }
}

interface Mask {
  readonly inside: string;
  readonly spot: GuardSpot;
}

/** Where files that are masked would be seen. One that is shown by itself was named by the operator, and is seen. */
function masksOf(files: readonly string[], places: readonly Mount[], hasSystem: boolean): Mask[] {
  const inPlaces = places.flatMap(({ what }) =>
    files.flatMap((real) => {
      if (real === what.real || !isInside(real, what.real)) return [];
      const path = real.slice(what.real.length).replace(/^\//, '');
      const stats = lookWithin(what, path);
      return stats?.isFile() ? [{ inside: join(what.inside, path), spot: spotOf({ real, stats }) }] : [];
    }),
  );
  const isNamed = (real: string) => places.some(({ what }) => what.real === real);
  const inSystem = files.flatMap((real) => {
    const stats = hasSystem && isSystem(real) && !isNamed(real) ? lookAt(real) : undefined;
    return stats?.isFile() ? [{ inside: real, spot: spotOf({ real, stats }) }] : [];
  });
  return [...new Map([...inSystem, ...inPlaces].map((mask) => [mask.inside, mask])).values()];
}

/** Everything that is mounted, each after what it lies in. */
export function inOrder({ places, guarded }: Pick<Mounts, 'places' | 'guarded'>): Mount[] {
  const all = [
    ...places,
    ...guarded.kept.map((what) => ({ what, writable: true })),
    ...guarded.readOnly.map((what) => ({ what, writable: false })),
  ];
  const depth = ({ what }: Mount) => what.inside.split('/').length;
  return all.sort((one, other) => depth(one) - depth(other));
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
