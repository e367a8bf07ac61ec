import { lstatSync, readFileSync, readlinkSync, realpathSync } from 'node:fs';
import { dirname } from 'node:path';
import { unavailable } from '../common/sandbox-errors.ts';
import { inOrder, type Mount, type Mounts } from './mounts.ts';
import type { Pinned } from './pinned-path.ts';
import { isInside } from './visibility-filter.ts';

const pathOf = ({ descriptor }: Pinned): string => readlinkSync(`/proc/self/fd/${descriptor}`);

interface MountEntry {
  readonly id: string;
  readonly device: string;
  /** Where in its file system it begins. */
  readonly root: string;
  readonly place: string;
  readonly writable: boolean;
}

/**
 * Engines mount by name, and bwrap mounts upon names. A name in a workspace can be given to something else between our look
 * and theirs. So what they have mounted is compared with what is held, before the program runs. Throws when it is something
 * else, lies elsewhere, or can be written although it should not.
 */
export function assertShownTruly(pid: number, mounts: Pick<Mounts, 'places' | 'guarded'>): void {
  const here = parseMounts(readFileSync('/proc/self/mountinfo', 'utf8'));
  const inside = new Map(
    parseMounts(readFileSync(`/proc/${pid}/mountinfo`, 'utf8')).map((mount) => [mount.place, mount]),
  );
  for (const { what, writable } of inOrder(mounts)) {
    const found = inside.get(what.inside);
    const held = placeOf(what, here);
    const isSame = found !== undefined && found.device === held.device && found.root === held.root;
    if (!isSame || (found.writable && !writable)) throw replacedMeanwhile();
  }
}

/** Somebody has moved or replaced what is shown, while it was being shown. */
export function replacedMeanwhile() {
  return unavailable(
    'something that is guarded in a folder was moved or replaced while the sandbox was set up',
    'Try again. If it happens again, look which server or program moves folders of the workspace.',
  );
}

/** The file system a held thing lies in, and where. */
function placeOf({ descriptor }: Pinned, mounts: readonly MountEntry[]): { device: string; root: string } {
  const id = /^mnt_id:\s*(\d+)$/m.exec(readFileSync(`/proc/self/fdinfo/${descriptor}`, 'latin1'))?.[1];
  const mount = mounts.find((each) => each.id === id);
  if (mount === undefined)
    throw unavailable('the kernel does not tell where a folder lies', 'Run Ambit outside of chroot.');
  const path = readlinkSync(`/proc/self/fd/${descriptor}`);
  return {
    device: mount.device,
    root: joined(mount.root, mount.place === '/' ? path : path.slice(mount.place.length)),
  };
}

const joined = (root: string, below: string): string => (root === '/' ? below || '/' : root + below);

export function parseMounts(text: string): MountEntry[] {
  return text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => {
      const [id = '', , device = '', root = '', place = '', options = ''] = line.split(' ');
      return {
        id,
        device,
        root: unescaped(root),
        place: unescaped(place),
        writable: options.split(',').includes('rw'),
      };
    });
}

/** The kernel writes blanks, tabs, line breaks and backslashes as three octal digits. */
function unescaped(path: string): string {
  const bytes = Buffer.from(path, 'utf8').toString('latin1');
  const plain = bytes.replace(/\\([0-7]{3})/g, (_, digits: string) => String.fromCharCode(Number.parseInt(digits, 8)));
  return Buffer.from(plain, 'latin1').toString('utf8');
}

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
