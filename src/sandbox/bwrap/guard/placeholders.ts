import {
  closeSync,
  constants,
  fstatSync,
  lstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmdirSync,
  unlinkSync,
  writeSync,
} from 'node:fs';
import { dirname } from 'node:path';
import { type PinnedPath, pinChild, pinPath } from '../pinned-path.ts';

/** An empty file or folder that reserves a missing name for as long as a sandbox of this process needs it. */
export interface Placeholder {
  readonly path: string;
  readonly content: string | undefined;
}

const useCounts = new Map<string, number>();
/** Released placeholders that are not removed yet. */
const pendingRemoval = new Set<string>();

/** Whether this process made the entry of this name only for a sandbox. */
export function isPlaceholder(folder: PinnedPath, name: string): boolean {
  const path = `${folder.source}/${name}`;
  return useCounts.has(path) || pendingRemoval.has(path);
}

/** Reserves a missing name in a folder. Undefined where that is not allowed: then nobody inside may either. */
export function createPlaceholder(folder: PinnedPath, name: string, content?: string): Placeholder | undefined {
  const at = `/proc/self/fd/${folder.descriptor}/${name}`;
  const path = `${folder.source}/${name}`;
  const isNew = lstatSync(at, { throwIfNoEntry: false }) === undefined && createIfAllowed(at, content);
  if (!isNew && !(isOwnPlaceholder(path, name, content) && isUntouched(folder, name, content))) return undefined;
  useCounts.set(path, (useCounts.get(path) ?? 0) + 1);
  pendingRemoval.delete(path);
  return { path, content };
}

function createIfAllowed(at: string, content: string | undefined): boolean {
  try {
    if (content === undefined) mkdirSync(at, 0o755);
    else writeNewFile(at, content);
    return true;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'EACCES' || code === 'EROFS' || code === 'EPERM') return false;
    throw error;
  }
}

/** Whether another sandbox or a killed process made it: nobody else makes an empty folder `.git` or `HEAD`. */
function isOwnPlaceholder(path: string, name: string, content: string | undefined): boolean {
  return (
    useCounts.has(path) ||
    pendingRemoval.has(path) ||
    name === '.git' ||
    name === 'HEAD' ||
    (content !== undefined && content !== '')
  );
}

/** Killed processes and their mounts take a moment to disappear. */
const retryMs = 50;
const maxRetryMs = 2000;
const maxAttempts = 12;
/** The number of attempts for which a timer keeps Ambit alive. */
const keepAliveAttempts = 4;

/** Removes placeholders that are still empty and that no sandbox uses any more. Nested ones come later in the list. */
export function releasePlaceholders(placeholders: readonly Placeholder[]): void {
  for (const { path } of placeholders) {
    const left = (useCounts.get(path) ?? 1) - 1;
    if (left > 0) useCounts.set(path, left);
    else {
      useCounts.delete(path);
      pendingRemoval.add(path);
    }
  }
  removeUnused(placeholders.toReversed(), maxAttempts);
}

function removeUnused(placeholders: readonly Placeholder[], left: number): void {
  const mounted = createMountCheck();
  const busy = placeholders.filter(({ path, content }) => !useCounts.has(path) && !tryRemove(path, content, mounted));
  const waiting = left === 0 ? [] : busy;
  for (const { path } of placeholders) if (!waiting.some((each) => each.path === path)) pendingRemoval.delete(path);
  if (waiting.length === 0) return;
  // Each check takes time, so the pause grows.
  const timer = setTimeout(removeUnused, Math.min(retryMs * 2 ** (maxAttempts - left), maxRetryMs), busy, left - 1);
  if (left <= maxAttempts - keepAliveAttempts) timer.unref();
}

/** False while it is still mounted somewhere. */
function tryRemove(path: string, content: string | undefined, mounted: (path: string) => boolean): boolean {
  let folder: PinnedPath | undefined;
  try {
    folder = pinPath({ source: dirname(path), target: '/' });
    const name = path.slice(folder.source.length + 1);
    if (!isUntouched(folder, name, content)) return true;
    if (mounted(path)) return false;
    const at = `/proc/self/fd/${folder.descriptor}/${name}`;
    if (content === undefined) rmdirSync(at);
    else unlinkSync(at);
  } catch {
    // The folder is gone, or somebody has filled the placeholder: then it is not ours any more.
  } finally {
    if (folder !== undefined) closeSync(folder.descriptor);
  }
  return true;
}

function writeNewFile(at: string, content: string): void {
  const flags = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW;
  const descriptor = openSync(at, flags, 0o644);
  try {
    writeSync(descriptor, content);
  } finally {
    closeSync(descriptor);
  }
}

function isUntouched(folder: PinnedPath, name: string, content: string | undefined): boolean {
  const pinned = pinChild(folder, name);
  if (pinned === undefined) return false;
  const at = `/proc/self/fd/${pinned.descriptor}`;
  try {
    if (content === undefined) return pinned.stats.isDirectory() && readdirSync(at).length === 0;
    return (
      pinned.stats.isFile() &&
      fstatSync(pinned.descriptor).size === content.length &&
      readFileSync(at, 'latin1') === content
    );
  } finally {
    closeSync(pinned.descriptor);
  }
}

/**
 * Returns a function that checks whether a path is a mount point anywhere. Removing a name removes its mounts in all
 * sandboxes, also those of another gateway. The mounts are read once, on the first call, and once per mount namespace.
 */
function createMountCheck(): (path: string) => boolean {
  let points: ReadonlySet<string> | undefined;
  return (path) => {
    points ??= readMountPoints();
    return points.has(path.replace(/[\s\\]/g, (letter) => `\\${letter.charCodeAt(0).toString(8).padStart(3, '0')}`));
  };
}

/** The mount namespace of a process. Its pid stands in for it where another account's cannot be read. */
function readMountNamespace(pid: string): string {
  try {
    return readlinkSync(`/proc/${pid}/ns/mnt`);
  } catch {
    return pid;
  }
}

function readMountPoints(): ReadonlySet<string> {
  const points = new Set<string>();
  const seen = new Set<string>();
  for (const pid of readdirSync('/proc')) {
    if (!/^\d+$/.test(pid)) continue;
    const space = readMountNamespace(pid);
    if (seen.has(space)) continue;
    try {
      for (const line of readFileSync(`/proc/${pid}/mountinfo`, 'utf8').split('\n')) {
        // The mounted path and the mount point: inside, the path may have another name.
        for (const path of line.split(' ', 5).slice(3)) points.add(path);
      }
      seen.add(space);
    } catch {
      // The process has ended.
    }
  }
  return points;
}
