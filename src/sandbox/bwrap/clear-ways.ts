import { lstatSync, readlinkSync, realpathSync } from 'node:fs';
import { dirname } from 'node:path';
import { inOrder, type Mount, type Mounts } from './mounts.ts';
import type { Pinned } from './pinned.ts';
import { replacedMeanwhile } from './shown-truly.ts';
import { isInside } from './what-may-be-shown.ts';

/**
 * Bwrap follows links on the way to what it mounts upon, also out of the sandbox, and makes what is missing there. So each
 * such place has to be there, with no link on the way. This holds for as long as nobody else can write there.
 */
export function assertWaysClear(mounts: Pick<Mounts, 'places' | 'guarded'>): void {
  const { places } = mounts;
  const clear = new Set<string>();
  for (const mount of inOrder(mounts)) {
    const path = pathOutside(mount, places);
    if (path === undefined) continue;
    // A folder that is shown in another one may have no place there yet.
    assertClear(places.includes(mount) ? deepestThere(path) : path, clear);
  }
}

/** The folders outside in which bwrap mounts something. */
export function foldersMountedUpon(mounts: Pick<Mounts, 'places' | 'guarded'>): string[] {
  const { places } = mounts;
  const folders = inOrder(mounts).flatMap((mount) => placeAbove(mount, places) ?? []);
  return [...new Set(folders)].map(({ what }) => pathOf(what));
}

/** What bwrap mounts upon, seen from outside; undefined where that is bwrap's own, or the system's. */
function pathOutside(mount: Mount, places: readonly Mount[]): string | undefined {
  const above = placeAbove(mount, places);
  return above && pathOf(above.what) + mount.what.inside.slice(above.what.inside.length);
}

function placeAbove({ what }: Mount, places: readonly Mount[]): Mount | undefined {
  return places.findLast((place) => place.what !== what && isInside(what.inside, place.what.inside));
}

const pathOf = ({ descriptor }: Pinned): string => readlinkSync(`/proc/self/fd/${descriptor}`);

function assertClear(path: string, clear: Set<string>): void {
  // Only the last name has to be looked at where the folder is known to be clear.
  const isClear = clear.has(dirname(path)) ? isNoLink(path) : isReal(path);
  if (!isClear) throw replacedMeanwhile();
  clear.add(path);
}

function isNoLink(path: string): boolean {
  const stats = lstatSync(path, { throwIfNoEntry: false });
  return stats !== undefined && !stats.isSymbolicLink();
}

function isReal(path: string): boolean {
  try {
    return realpathSync.native(path) === path;
  } catch {
    return false;
  }
}

function deepestThere(path: string): string {
  let there = path;
  while (lstatSync(there, { throwIfNoEntry: false }) === undefined) there = dirname(there);
  return there;
}
