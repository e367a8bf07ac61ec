import { lstatSync, readFileSync, readlinkSync, realpathSync } from 'node:fs';
import { dirname } from 'node:path';
import { sandboxUnavailable } from '../common/sandbox-errors.ts';
import { isInside } from '../common/visibility-filter.ts';
import { type Mounts, mountsInOrder, type PinnedMount } from './mounts.ts';
import type { PinnedPath } from './pinned-path.ts';

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
