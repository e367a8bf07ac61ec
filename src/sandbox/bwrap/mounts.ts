import { lstatSync, readFileSync, readlinkSync, realpathSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { Confinement, Mount } from '../common/confinement.ts';
import { sandboxUnavailable } from '../common/sandbox-errors.ts';
import {
  findMachineCredentials,
  isInside,
  isSystemPath,
  type LinkCopy,
  type VisiblePaths,
} from '../common/visibility-filter.ts';
import { statIfReadable } from './guard/find-protected-names.ts';
import { type Placeholder, type ProtectedPaths, releasePlaceholders } from './guard/mount-collector.ts';
import { protectConfigFiles } from './guard/protect-config-files.ts';
import { type MountMark, markMountPoint, type WatchedFolder, type WatchedPaths } from './guard/watch-mount-points.ts';
import { type PinnedPath, pinPath, releasePins, statChild } from './pinned-path.ts';

export interface Mounts {
  /** Outer mounts come first. */
  readonly entries: readonly PinnedMount[];
  readonly links: readonly LinkCopy[];
  readonly guarded: ProtectedPaths;
  /** Paths that must stay unchanged while the mounts exist. */
  readonly watched: WatchedPaths;
  /** Closes the descriptors that were held for mounting. */
  release(): void;
  /** Removes the placeholders of missing names, once no process needs the mounts any more. */
  removePlaceholders(): void;
}

interface PinnedMount {
  readonly pinned: PinnedPath;
  readonly writable: boolean;
}

interface WantedMount {
  readonly mount: Mount;
  readonly writable: boolean;
}

const kernelFolders = ['/proc', '/sys', '/dev'];

/**
 * Pins everything that is mounted beside the system, each by a descriptor. Throws when something is missing.
 * `hasSystem` is false where the system inside is not this machine's. Redacted copies are written to the folder
 * `copies`.
 */
export async function pinMounts(
  confinement: Confinement,
  server: VisiblePaths,
  copies: string,
  hasSystem = true,
): Promise<Mounts> {
  const { home, volume, readable, writable } = confinement;
  const homes = volume === undefined ? [home] : [];
  const wanted: WantedMount[] = [
    ...homes.map((mount) => ({ mount, writable: true })),
    ...writable.map((mount) => ({ mount, writable: true })),
    ...[...readable, ...server.mounts].map((mount) => ({ mount, writable: false })),
  ];
  const held: PinnedPath[] = [];
  const placeholders: Placeholder[] = [];
  const kept: PinnedPath[] = [];
  const readOnly: PinnedPath[] = [];
  const mountPoints: MountMark[] = [];
  const folders: WatchedFolder[] = [];
  let copied = 0;
  const writeCopy = (content: Buffer, inside: string): PinnedPath => {
    const real = join(realpathSync.native(copies), `shown-${++copied}`);
    writeFileSync(real, content, { flag: 'wx', mode: 0o644 });
    return pinPath({ source: real, target: inside });
  };
  const pinMount = (mount: Mount): PinnedPath => {
    if (kernelFolders.some((folder) => isInside(mount.source, folder) || isInside(mount.target, folder))) {
      throw new Error(`A sandbox has its own version of this path: ${mount.target}`);
    }
    const pinned = pinPath(mount);
    held.push(pinned);
    return pinned;
  };
  try {
    const entries = dropRedundantMounts(wanted, hasSystem).map(({ mount, writable }) => ({
      pinned: pinMount(mount),
      writable,
    }));
    const own = homes.map(
      (mount) => entries.find(({ pinned }) => pinned.target === mount.target)?.pinned ?? pinMount(mount),
    );
    const open = entries.flatMap(({ pinned, writable }) => (writable && !own.includes(pinned) ? [pinned] : []));
    const guards = confinement.frozen ? [] : [...own, ...open].filter(({ stats }) => stats.isDirectory());
    for (const folder of guards) {
      const found = await protectConfigFiles(folder, writeCopy);
      held.push(...found.kept, ...found.readOnly);
      placeholders.push(...found.placeholders);
      kept.push(...found.kept);
      readOnly.push(...found.readOnly);
      mountPoints.push(...found.mountPoints);
      folders.push(...found.folders);
    }
    readOnly.push(...(confinement.frozen ?? []).map(pinMount));
    const masks = findMasks([...(confinement.masked ?? []), ...findMachineCredentials()], entries, hasSystem);
    const empty = masks.map(({ inside }) => writeCopy(Buffer.alloc(0), inside));
    held.push(...empty);
    mountPoints.push(...masks.map(({ mark }) => mark));
    const isMasked = ({ target }: PinnedPath) => masks.some((mask) => mask.inside === target);
    return {
      entries,
      links: findMissingLinks(server.links, entries),
      guarded: { kept, readOnly: [...readOnly.filter((each) => !isMasked(each)), ...empty] },
      watched: { mountPoints, folders },
      release: () => releasePins(held),
      removePlaceholders: () => releasePlaceholders(placeholders),
    };
  } catch (error) {
    releasePins(held);
    releasePlaceholders(placeholders);
    throw error;
  }
}

interface MaskedFile {
  readonly inside: string;
  readonly mark: MountMark;
}

/** Finds the masked files that would be visible. A file that the operator mounts by its own path stays visible. */
function findMasks(files: readonly string[], entries: readonly PinnedMount[], hasSystem: boolean): MaskedFile[] {
  const inEntries = entries.flatMap(({ pinned }) =>
    files.flatMap((real) => {
      if (real === pinned.source || !isInside(real, pinned.source)) return [];
      const path = real.slice(pinned.source.length).replace(/^\//, '');
      const stats = statChild(pinned, path);
      return stats?.isFile() ? [{ inside: join(pinned.target, path), mark: markMountPoint(real, stats) }] : [];
    }),
  );
  const isNamed = (real: string) => entries.some(({ pinned }) => pinned.source === real);
  const inSystem = files.flatMap((real) => {
    const stats = hasSystem && isSystemPath(real) && !isNamed(real) ? statIfReadable(real) : undefined;
    return stats?.isFile() ? [{ inside: real, mark: markMountPoint(real, stats) }] : [];
  });
  return [...new Map([...inSystem, ...inEntries].map((mask) => [mask.inside, mask])).values()];
}

/** Returns all mounts, each after the one it lies in. */
export function mountsInOrder({ entries, guarded }: Pick<Mounts, 'entries' | 'guarded'>): PinnedMount[] {
  const all = [
    ...entries,
    ...guarded.kept.map((pinned) => ({ pinned, writable: true })),
    ...guarded.readOnly.map((pinned) => ({ pinned, writable: false })),
  ];
  const depth = ({ pinned }: PinnedMount) => pinned.target.split('/').length;
  return all.sort((one, other) => depth(one) - depth(other));
}

/** Drops links that lie in a mounted folder: they are there already. */
function findMissingLinks(links: readonly LinkCopy[], entries: Mounts['entries']): LinkCopy[] {
  const unique = new Map(links.map((link) => [link.inside, link]));
  return [...unique.values()].filter(({ inside }) => !entries.some(({ pinned }) => isInside(inside, pinned.target)));
}

/** Drops mounts that lie in another one and grant no more than it does. */
function dropRedundantMounts(wanted: readonly WantedMount[], hasSystem: boolean): WantedMount[] {
  const entries = [...wanted].sort((one, other) => depthOf(one) - depthOf(other) || rank(one) - rank(other));
  const kept: WantedMount[] = [];
  for (const candidate of entries) {
    const above = kept.findLast(({ mount }) => isInside(candidate.mount.target, mount.target));
    const given =
      above !== undefined
        ? isReachedThrough(above, candidate) && (above.writable || !candidate.writable)
        : hasSystem && !candidate.writable && isSystemPath(candidate.mount.target);
    if (!given) kept.push(candidate);
  }
  return kept;
}

const rank = ({ writable }: WantedMount): number => (writable ? 0 : 1);
const depthOf = ({ mount }: WantedMount): number => mount.target.split('/').length;

/** A link inside a mounted folder leads to the right target by itself, and nothing can be mounted on it. */
function isReachedThrough(above: WantedMount, { mount }: WantedMount): boolean {
  const direct = above.mount.source + mount.target.slice(above.mount.target.length);
  return direct === mount.source || mount.target !== mount.source;
}

const pinnedHostPath = ({ descriptor }: PinnedPath): string => readlinkSync(`/proc/self/fd/${descriptor}`);

interface MountInfoEntry {
  readonly id: string;
  readonly device: string;
  /** The path in its file system at which the mount begins. */
  readonly root: string;
  readonly mountPoint: string;
  readonly writable: boolean;
}

/**
 * Verifies the mounts of a process before its program runs. Engines mount by name, and bwrap mounts on names. A name in
 * a workspace can be replaced between our check and the mount. Throws when a mount is another file, lies elsewhere, or
 * is writable although it should not be.
 */
export function verifyMounts(pid: number, mounts: Pick<Mounts, 'entries' | 'guarded'>): void {
  const here = parseMountInfo(readFileSync('/proc/self/mountinfo', 'utf8'));
  const inside = new Map(
    parseMountInfo(readFileSync(`/proc/${pid}/mountinfo`, 'utf8')).map((mount) => [mount.mountPoint, mount]),
  );
  for (const { pinned, writable } of mountsInOrder(mounts)) {
    const found = inside.get(pinned.target);
    const held = locatePinned(pinned, here);
    const isSame = found !== undefined && found.device === held.device && found.root === held.root;
    if (!isSame || (found.writable && !writable)) throw replacedDuringSetup();
  }
}

function replacedDuringSetup() {
  return sandboxUnavailable(
    'a protected file was moved or replaced while the sandbox was set up',
    'Try again. If it happens again, find out which server or program moves folders of the workspace.',
  );
}

/** The device and the path of a pinned file in its file system. */
function locatePinned({ descriptor }: PinnedPath, mounts: readonly MountInfoEntry[]): { device: string; root: string } {
  const id = /^mnt_id:\s*(\d+)$/m.exec(readFileSync(`/proc/self/fdinfo/${descriptor}`, 'latin1'))?.[1];
  const mount = mounts.find((each) => each.id === id);
  if (mount === undefined)
    throw sandboxUnavailable('the kernel does not report the path of a folder', 'Run Ambit outside of chroot.');
  const path = readlinkSync(`/proc/self/fd/${descriptor}`);
  return {
    device: mount.device,
    root: joinBelow(mount.root, mount.mountPoint === '/' ? path : path.slice(mount.mountPoint.length)),
  };
}

const joinBelow = (root: string, below: string): string => (root === '/' ? below || '/' : root + below);

export function parseMountInfo(text: string): MountInfoEntry[] {
  return text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => {
      const [id = '', , device = '', root = '', mountPoint = '', options = ''] = line.split(' ');
      return {
        id,
        device,
        root: unescapePath(root),
        mountPoint: unescapePath(mountPoint),
        writable: options.split(',').includes('rw'),
      };
    });
}

/** The kernel writes blanks, tabs, line breaks and backslashes as three octal digits. */
function unescapePath(path: string): string {
  const bytes = Buffer.from(path, 'utf8').toString('latin1');
  const plain = bytes.replace(/\\([0-7]{3})/g, (_, digits: string) => String.fromCharCode(Number.parseInt(digits, 8)));
  return Buffer.from(plain, 'latin1').toString('utf8');
}

/**
 * Throws unless each mount point exists, with no link on its path. Bwrap follows links to a mount point, also out of
 * the sandbox, and creates what is missing there. The result holds as long as nobody else can write there.
 */
export function assertMountPointsClear(mounts: Pick<Mounts, 'entries' | 'guarded'>): void {
  const { entries } = mounts;
  const clear = new Set<string>();
  for (const mount of mountsInOrder(mounts)) {
    const path = hostPathOf(mount, entries);
    if (path === undefined) continue;
    // A folder that is mounted in another one may have no mount point there yet.
    assertClear(entries.includes(mount) ? findDeepestExisting(path) : path, clear);
  }
}

/** Finds the folders on the host in which bwrap mounts something. */
export function findMountFolders(mounts: Pick<Mounts, 'entries' | 'guarded'>): string[] {
  const { entries } = mounts;
  const folders = mountsInOrder(mounts).flatMap((mount) => findEnclosingMount(mount, entries) ?? []);
  return [...new Set(folders)].map(({ pinned }) => pinnedHostPath(pinned));
}

/** The path of a mount point on the host; undefined where it belongs to bwrap or to the system. */
function hostPathOf(mount: PinnedMount, entries: readonly PinnedMount[]): string | undefined {
  const above = findEnclosingMount(mount, entries);
  return above && pinnedHostPath(above.pinned) + mount.pinned.target.slice(above.pinned.target.length);
}

function findEnclosingMount({ pinned }: PinnedMount, entries: readonly PinnedMount[]): PinnedMount | undefined {
  return entries.findLast((entry) => entry.pinned !== pinned && isInside(pinned.target, entry.pinned.target));
}

function assertClear(path: string, clear: Set<string>): void {
  // Only the last name has to be checked where the folder is known to be clear.
  const isClear = clear.has(dirname(path)) ? isNoLink(path) : isRealPath(path);
  if (!isClear) throw replacedDuringSetup();
  clear.add(path);
}

function isNoLink(path: string): boolean {
  const stats = lstatSync(path, { throwIfNoEntry: false });
  return stats !== undefined && !stats.isSymbolicLink();
}

function isRealPath(path: string): boolean {
  try {
    return realpathSync.native(path) === path;
  } catch {
    return false;
  }
}

function findDeepestExisting(path: string): string {
  let there = path;
  while (lstatSync(there, { throwIfNoEntry: false }) === undefined) there = dirname(there);
  return there;
}
