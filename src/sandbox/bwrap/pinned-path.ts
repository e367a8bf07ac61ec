import { closeSync, constants, fstatSync, lstatSync, openSync, readFileSync, readlinkSync, type Stats } from 'node:fs';
import type { Mount } from '../common/confinement.ts';
import { sandboxUnavailable } from '../common/sandbox-errors.ts';

/** Refers to a path without opening it. Node does not name the flag, which is the same on every processor. */
const O_PATH = 0o10000000;

/** A file or folder that is held by a descriptor, so that the checked path is the mounted one. */
export interface PinnedPath extends Mount {
  readonly descriptor: number;
  readonly stats: Stats;
}

/** Throws when the path now leads to something else, or through a link. */
export function pinPath(mount: Mount): PinnedPath {
  const isHeld = mount.descriptor !== undefined;
  const descriptor = isHeld
    ? openSync(`/proc/self/fd/${mount.descriptor}`, O_PATH)
    : openSync(mount.source, O_PATH | constants.O_NOFOLLOW);
  try {
    if (!isHeld && readlinkSync(`/proc/self/fd/${descriptor}`) !== mount.source) {
      throw new Error(`This path changed its target during the start: ${mount.source}`);
    }
    const stats = fstatSync(descriptor);
    if (!stats.isDirectory() && !stats.isFile() && !stats.isSocket()) {
      throw new Error(`This is neither a folder nor a file and cannot be mounted in a sandbox: ${mount.source}`);
    }
    return { ...mount, descriptor, stats };
  } catch (error) {
    closeSync(descriptor);
    throw error;
  }
}

/**
 * Reads a pinned file without blocking. Another process may hold a lease on it, or it may be a pipe by now: then this
 * throws EAGAIN.
 */
export function readPinnedFile({ descriptor }: PinnedPath): Buffer {
  const reading = openSync(`/proc/self/fd/${descriptor}`, constants.O_RDONLY | constants.O_NONBLOCK);
  try {
    return readFileSync(reading);
  } finally {
    closeSync(reading);
  }
}

/** Pins a file or folder in a pinned folder; undefined for a link, or when there is none. */
export function pinChild(folder: PinnedPath, name: string): PinnedPath | undefined {
  let descriptor: number;
  try {
    descriptor = openSync(`/proc/self/fd/${folder.descriptor}/${name}`, O_PATH | constants.O_NOFOLLOW);
  } catch (error) {
    assertNotFound(error, name);
    return undefined;
  }
  const stats = fstatSync(descriptor);
  if (stats.isDirectory() || stats.isFile()) {
    return { source: `${folder.source}/${name}`, target: `${folder.target}/${name}`, descriptor, stats };
  }
  closeSync(descriptor);
  return undefined;
}

/** Stats a path in a pinned folder without following a link; undefined when there is none. */
export function statChild({ descriptor }: PinnedPath, path: string): Stats | undefined {
  try {
    return lstatSync(`/proc/self/fd/${descriptor}/${path}`, { throwIfNoEntry: false });
  } catch (error) {
    assertNotFound(error, path);
    return undefined;
  }
}

/**
 * Throws unless the error means that the path is missing. An unreadable path is not taken for missing: its owner could
 * open it once nothing protects it.
 */
function assertNotFound(error: unknown, path: string): void {
  const { code } = error as NodeJS.ErrnoException;
  if (code === 'ENOENT' || code === 'ENOTDIR' || code === 'ELOOP' || code === 'ENAMETOOLONG') return;
  throw sandboxUnavailable(
    `"${path}" in a writable folder cannot be read (${code}), so it cannot be protected`,
    'Give the account that runs Ambit permission to read the folders on that path.',
    error,
  );
}

export function releasePins(all: Iterable<PinnedPath>): void {
  for (const { descriptor } of all) closeSync(descriptor);
}

/** Whether the operator allows writing to something protected, by itself or with all that is in it. */
export function isWriteAllowed({ guard }: Pick<PinnedPath, 'guard'>, names: readonly string[]): boolean {
  const mayWrite = guard?.mayWrite;
  return mayWrite !== undefined && (mayWrite(names) || mayWrite([...names, 'any']));
}
