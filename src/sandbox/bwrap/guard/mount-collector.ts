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
import { findRedaction, redactBytes } from '../../../lib/redact/redact-settings.ts';
import { escapeControls } from '../../../lib/text/escape-controls.ts';
import { sandboxUnavailable } from '../../common/sandbox-errors.ts';
import { type PinnedPath, pinChild, pinPath, readPinnedFile, releasePins, statChild } from '../pinned-path.ts';
import type { WriteCopy } from './protect-config-files.ts';
import { type MountMark, markMountPoint } from './watch-mount-points.ts';

export interface ProtectedPaths {
  /** Writable mounts that stay in place, so that they cannot be moved away with the read-only ones in them. */
  readonly kept: readonly PinnedPath[];
  readonly readOnly: readonly PinnedPath[];
}

export interface CollectedMounts extends ProtectedPaths {
  /** The mount points of all of them. */
  readonly mountPoints: readonly MountMark[];
  readonly placeholders: readonly Placeholder[];
}

export interface Collector {
  /**
   * Makes a file or folder read-only, and hides the credentials in it. Undefined when there is none. `known` gives
   * other names by which a settings file is recognised.
   */
  addReadOnly(folder: PinnedPath, name: string, known?: readonly string[]): PinnedPath | undefined;
  /** Hides the credentials in a settings file. A file without any is left alone. */
  hideCredentials(folder: PinnedPath, name: string, known?: readonly string[]): void;
  /** Whether hiding credentials would change the file. */
  hasCredentials(folder: PinnedPath, name: string): boolean;
  /** Keeps a file or folder from being moved. */
  keepInPlace(folder: PinnedPath, name: string): PinnedPath | undefined;
  /** Makes a name read-only, even if nothing has it. */
  reserveName(folder: PinnedPath, name: string, content?: string): PinnedPath | undefined;
  /** Shows an empty file in place of a socket: the process that listens there is outside of any sandbox. */
  coverSocket(folder: PinnedPath, path: string): void;
  /** Watches a link: nothing can be mounted on it, so a replaced link is detected instead. */
  watchPath(folder: PinnedPath, name: string): void;
  /** Counts each visited entry. Throws when there are too many. */
  countVisit(): void;
  collect(): CollectedMounts;
  release(): void;
}

/** A larger file is no settings file, and searching it would take long. */
const maxSettingsBytes = 256 * 1024;
/** The budget for one folder: each mount takes descriptors and arguments, and each search takes time. */
const budgets = { mounts: 2000, placeholders: 500, visits: 20_000, searched: 16 * 1024 * 1024 };

/** Collects the mounts of a folder, each once. */
export function createCollector(top: PinnedPath, writeCopy: WriteCopy): Collector {
  const kept = new Map<string, PinnedPath>();
  const readOnly = new Map<string, PinnedPath>();
  const placeholders: Placeholder[] = [];
  const mountPoints: MountMark[] = [];
  const left = { ...budgets };

  function spendBudget(what: keyof typeof budgets, count: number, inside: string): void {
    left[what] -= count;
    if (left[what] < 0) throw budgetExceeded(what, inside === '' ? '' : inside.slice(top.target.length + 1));
  }

  /** The content to show in place of a file; undefined to show the file itself. */
  function redactedContent(file: PinnedPath, known?: readonly string[]): Buffer | undefined {
    if (!file.stats.isFile()) return undefined;
    const own = findRedaction(file.target.slice(top.target.length + 1).split('/'));
    const redact = own ?? (known && findRedaction(known));
    if (redact === undefined) return undefined;
    // A file that is too large to be settings is shown empty. A file that cannot be read here cannot be read inside
    // either.
    if (file.stats.size > maxSettingsBytes) return Buffer.alloc(0);
    spendBudget('searched', file.stats.size, file.target);
    try {
      const content = readPinnedFile(file);
      const plain = redactBytes(content, redact);
      return plain.equals(content) ? undefined : plain;
    } catch (error) {
      // A file that another program holds may have credentials. A file that Ambit may not read, nobody inside may.
      const isHeld = (error as NodeJS.ErrnoException).code === 'EAGAIN';
      return isHeld ? Buffer.alloc(0) : undefined;
    }
  }

  function copyRedacted(file: PinnedPath, known?: readonly string[]): PinnedPath | undefined {
    const content = redactedContent(file, known);
    return content && writeCopy(content, file.target);
  }

  function addMount(
    folder: PinnedPath,
    name: string,
    isShownAnyway: boolean,
    settings?: readonly string[],
  ): PinnedPath | undefined {
    const known = readOnly.get(`${folder.target}/${name}`);
    if (known !== undefined) return known;
    const found = pinChild(folder, name);
    if (found === undefined) return undefined;
    let seen: PinnedPath | undefined;
    try {
      seen = copyRedacted(found, settings) ?? (isShownAnyway ? found : undefined);
      if (seen === undefined) return undefined;
      readOnly.set(seen.target, seen);
      mountPoints.push(markMountPoint(found.source, found.stats));
      spendBudget('mounts', 1, seen.target);
      return seen;
    } finally {
      if (seen !== found) releasePins([found]);
    }
  }

  return {
    addReadOnly: (folder, name, known) => addMount(folder, name, true, known),
    hideCredentials: (folder, name, known) => void addMount(folder, name, false, known),
    hasCredentials(folder, name) {
      const found = pinChild(folder, name);
      if (found === undefined) return false;
      try {
        return redactedContent(found) !== undefined;
      } finally {
        releasePins([found]);
      }
    },
    keepInPlace(folder, name) {
      const known = kept.get(`${folder.target}/${name}`);
      if (known !== undefined) return known;
      const found = pinChild(folder, name);
      if (found === undefined) return undefined;
      kept.set(found.target, found);
      mountPoints.push(markMountPoint(found.source, found.stats));
      spendBudget('mounts', 1, found.target);
      return found;
    },
    reserveName(folder, name, content) {
      const placeholder = createPlaceholder(folder, name, content);
      if (placeholder !== undefined) placeholders.push(placeholder);
      spendBudget('placeholders', 1, `${folder.target}/${name}`);
      return addMount(folder, name, true);
    },
    coverSocket(folder, path) {
      const stats = statChild(folder, path);
      const inside = `${folder.target}/${path}`;
      if (!stats?.isSocket() || readOnly.has(inside)) return;
      readOnly.set(inside, writeCopy(Buffer.alloc(0), inside));
      spendBudget('mounts', 1, inside);
      mountPoints.push(markMountPoint(`${folder.source}/${path}`, stats));
    },
    watchPath(folder, name) {
      const stats = statChild(folder, name);
      if (stats !== undefined) mountPoints.push(markMountPoint(`${folder.source}/${name}`, stats));
    },
    countVisit: () => spendBudget('visits', 1, ''),
    collect() {
      // Writable mounts inside a read-only folder are not needed: nothing can move there.
      const needless = [...kept.values()].filter(({ target }) => isBelowAny(target, readOnly));
      for (const { target } of needless) kept.delete(target);
      releasePins(needless);
      return { kept: [...kept.values()], readOnly: [...readOnly.values()], mountPoints, placeholders };
    },
    release() {
      releasePins([...kept.values(), ...readOnly.values()]);
      releasePlaceholders(placeholders);
    },
  };
}

const budgetReasons: Readonly<Record<keyof typeof budgets, string>> = {
  mounts: `it has more than ${budgets.mounts} protected files and folders`,
  placeholders: `it has more than ${budgets.placeholders} protected names that do not exist`,
  visits: `its repositories have more than ${budgets.visits} folders of submodules and worktrees`,
  searched: 'its settings files are larger than 16 MiB in total',
};

function budgetExceeded(what: keyof typeof budgets, path: string) {
  const where = path === '' ? '' : `, up to "${escapeControls(path.slice(0, 200))}"`;
  return sandboxUnavailable(
    `a writable folder cannot be protected: ${budgetReasons[what]}${where}`,
    'Check who created them, and check "git config --list --show-origin" in the repositories there. Remove what is not needed.',
  );
}

function isBelowAny(inside: string, folders: ReadonlyMap<string, PinnedPath>): boolean {
  const names = inside.split('/');
  return names.some((_, count) => folders.has(names.slice(0, count + 1).join('/')));
}

/** Keeps each folder on a path in place. Undefined where one is missing or is no folder. */
export function keepFolders(top: PinnedPath, names: readonly string[], collector: Collector): PinnedPath | undefined {
  let here: PinnedPath | undefined = top;
  for (const name of names) here = here && collector.keepInPlace(here, name);
  return here;
}

/** Makes something read-only as a whole, and keeps the folders above it in place. */
export function lockPath(top: PinnedPath, names: readonly string[], collector: Collector): PinnedPath | undefined {
  const above = keepFolders(top, names.slice(0, -1), collector);
  return above === undefined || names.length === 0 ? undefined : collector.addReadOnly(above, names.at(-1) as string);
}

/** Makes the folder around a link read-only as a whole: nothing can be mounted on the link itself. */
export function lockParent(top: PinnedPath, names: readonly string[], collector: Collector): void {
  if (names.length > 1) {
    lockPath(top, names.slice(0, -1), collector);
    return;
  }
  throw sandboxUnavailable(
    'a symbolic link at the top of a writable folder takes the place of a repository and cannot be protected',
    'Check "git submodule status" and "git status" there, and replace the link with a folder.',
  );
}

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
function createPlaceholder(folder: PinnedPath, name: string, content?: string): Placeholder | undefined {
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
