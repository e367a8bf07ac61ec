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
import { type Pinned, pin, pinWithin } from '../pinned-path.ts';

/**
 * A name that is missing cannot be made read-only. So an empty file or folder takes it, for as long as any sandbox of this
 * process has it.
 */
export interface Placeholder {
  readonly path: string;
  readonly content: string | undefined;
}

const held = new Map<string, number>();
/** Given up, and not removed yet. */
const leaving = new Set<string>();

/** Whether what has this name in a folder was put there by this process, and is there because of a sandbox alone. */
export function isPlaceholder(folder: Pinned, name: string): boolean {
  const path = `${folder.real}/${name}`;
  return held.has(path) || leaving.has(path);
}

/** Takes a name in a folder, unless something has it. Undefined where that cannot be: then nobody else can take it either. */
export function takeName(folder: Pinned, name: string, content?: string): Placeholder | undefined {
  const at = `/proc/self/fd/${folder.descriptor}/${name}`;
  const path = `${folder.real}/${name}`;
  const isNew = lstatSync(at, { throwIfNoEntry: false }) === undefined && makeIfAllowed(at, content);
  if (!isNew && !(isOurs(path, name, content) && isUntouched(folder, name, content))) return undefined;
  held.set(path, (held.get(path) ?? 0) + 1);
  leaving.delete(path);
  return { path, content };
}

function makeIfAllowed(at: string, content: string | undefined): boolean {
  try {
    if (content === undefined) mkdirSync(at, 0o755);
    else writeNew(at, content);
    return true;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'EACCES' || code === 'EROFS' || code === 'EPERM') return false;
    throw error;
  }
}

/** Another sandbox has it, or a process that was killed has left it: nobody else makes an empty folder `.git` or `HEAD`. */
function isOurs(path: string, name: string, content: string | undefined): boolean {
  return (
    held.has(path) ||
    leaving.has(path) ||
    name === '.git' ||
    name === 'HEAD' ||
    (content !== undefined && content !== '')
  );
}

/** Processes that were killed take a moment to be gone, and with them what they had mounted. */
const againMs = 50;
const longestMs = 2000;
const attempts = 12;
/** For so many Ambit itself stays, should it be about to leave. */
const waitedFor = 4;

/** Removes what nobody has filled and no sandbox needs any more. Those inside others come later in the list. */
export function giveUpNames(placeholders: readonly Placeholder[]): void {
  for (const { path } of placeholders) {
    const left = (held.get(path) ?? 1) - 1;
    if (left > 0) held.set(path, left);
    else {
      held.delete(path);
      leaving.add(path);
    }
  }
  removeUnused(placeholders.toReversed(), attempts);
}

function removeUnused(placeholders: readonly Placeholder[], left: number): void {
  const mounted = mountedNow();
  const busy = placeholders.filter(({ path, content }) => !held.has(path) && !isRemoved(path, content, mounted));
  const waiting = left === 0 ? [] : busy;
  for (const { path } of placeholders) if (!waiting.some((each) => each.path === path)) leaving.delete(path);
  if (waiting.length === 0) return;
  // Looking takes time, so each time it waits longer.
  const timer = setTimeout(removeUnused, Math.min(againMs * 2 ** (attempts - left), longestMs), busy, left - 1);
  if (left <= attempts - waitedFor) timer.unref();
}

/** False where it is mounted somewhere still. */
function isRemoved(path: string, content: string | undefined, mounted: (path: string) => boolean): boolean {
  let folder: Pinned | undefined;
  try {
    folder = pin({ real: dirname(path), inside: '/' });
    const name = path.slice(folder.real.length + 1);
    if (!isUntouched(folder, name, content)) return true;
    if (mounted(path)) return false;
    const at = `/proc/self/fd/${folder.descriptor}/${name}`;
    if (content === undefined) rmdirSync(at);
    else unlinkSync(at);
  } catch {
    // The folder is gone, or somebody has filled it: then it is not ours any more.
  } finally {
    if (folder !== undefined) closeSync(folder.descriptor);
  }
  return true;
}

function writeNew(at: string, content: string): void {
  const flags = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW;
  const descriptor = openSync(at, flags, 0o644);
  try {
    writeSync(descriptor, content);
  } finally {
    closeSync(descriptor);
  }
}

function isUntouched(folder: Pinned, name: string, content: string | undefined): boolean {
  const pinned = pinWithin(folder, name);
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
 * Removing a name takes away what is mounted upon it, in whatever sandbox: another gateway may have one here. What is
 * mounted anywhere is read when it is first asked for, and once: of processes that see the same, from one.
 */
function mountedNow(): (path: string) => boolean {
  let points: ReadonlySet<string> | undefined;
  return (path) => {
    points ??= mountPoints();
    return points.has(path.replace(/[\s\\]/g, (letter) => `\\${letter.charCodeAt(0).toString(8).padStart(3, '0')}`));
  };
}

/** What a process sees as mounted; that of another account's may not be told apart. */
function spaceOf(pid: string): string {
  try {
    return readlinkSync(`/proc/${pid}/ns/mnt`);
  } catch {
    return pid;
  }
}

function mountPoints(): ReadonlySet<string> {
  const points = new Set<string>();
  const seen = new Set<string>();
  for (const pid of readdirSync('/proc')) {
    if (!/^\d+$/.test(pid)) continue;
    const space = spaceOf(pid);
    if (seen.has(space)) continue;
    try {
      for (const line of readFileSync(`/proc/${pid}/mountinfo`, 'utf8').split('\n')) {
        // What is mounted, and where: inside it may have another name.
        for (const path of line.split(' ', 5).slice(3)) points.add(path);
      }
      seen.add(space);
    } catch {
      // It has ended.
    }
  }
  return points;
}
