import { type Stats, statSync } from 'node:fs';
import { readEntries } from '../../../lib/fs/follow-links.ts';
import { isFollowed, plainlyFollowedIn } from '../../../lib/fs/guarded-links.ts';
import { createYielder } from '../../saferoot/time-slice.ts';

/** Nobody knows which links lie in a folder. The message is why nothing is to be changed then. */
export class NamesUnknownError extends Error {
  constructor(what: string) {
    super(what);
    this.name = 'NamesUnknown';
  }
}

/** Which names in folders are followed by others for what they are called. */
export interface FollowedNames {
  /** Not known where a large folder is still being looked through, or holds too many of them. */
  findNames(folder: string): { readonly names: readonly string[] | NamesUnknownError; isCurrent(): boolean };
  /** The first look through large folders, where one is under way. */
  pendingScan(): Promise<void> | undefined;
  /** How many looks have come to their end. */
  countFinishedScans(): number;
}

export interface FollowedNamesOptions {
  /** Told when a large folder has been looked through. */
  readonly onScanned?: () => void;
  /** The first look through a large folder is not left for later, for whoever cannot wait. */
  readonly firstAtOnce?: boolean;
}

const stillScanning = new NamesUnknownError('its folder has very many names, which are still looked through');
const tooManyNames = new NamesUnknownError('its folder has too many protected links to follow them all');
/** Few enough to be read each time the folder has changed. */
const maxAtOnce = 1000;
const maxFollowed = 2000;
const maxRemembered = 500;
/** A large folder is looked through again after a pause, which is longer than the look takes. */
const namesPerPauseMs = 100;

interface FolderScan {
  /** How the folder was before it was looked through. */
  readonly mark: string;
  readonly names: ReadonlySet<string>;
  /** How many names there were in all. */
  readonly count: number;
  readonly pauseUntil: number;
}

/**
 * A folder with many names is not read for each change in it. Names that are known are looked for each time; those that
 * fit a pattern are as they were when the whole folder was last looked through, beside other work.
 */
export function createFollowedNames({ onScanned, firstAtOnce = false }: FollowedNamesOptions = {}): FollowedNames {
  const scans = new Map<string, FolderScan>();
  const runningScans = new Set<string>();
  const firstScans = new Map<string, Promise<void>>();
  let lastScan: Promise<void> = Promise.resolve();
  let finishedScans = 0;

  function remember(folder: string, scan: FolderScan): FolderScan {
    scans.delete(folder);
    scans.set(folder, scan);
    if (scans.size > maxRemembered) scans.delete(scans.keys().next().value as string);
    return scan;
  }

  function scanInBackground(folder: string): void {
    if (runningScans.has(folder)) return;
    lastScan = lastScan.then(async () => {
      const scan = scanFolder(folder);
      const yieldIfDue = createYielder();
      let step = scan.next();
      for (; !step.done; step = scan.next()) await yieldIfDue();
      if (step.value.count > maxAtOnce) remember(folder, step.value);
      else scans.delete(folder);
      runningScans.delete(folder);
      firstScans.delete(folder);
      finishedScans++;
      onScanned?.();
    });
    runningScans.add(folder);
    if (!scans.has(folder)) firstScans.set(folder, lastScan);
  }

  const isDue = (folder: string, { mark, pauseUntil }: FolderScan): boolean =>
    performance.now() >= pauseUntil && contentMark(folder) !== mark;

  function findLastScan(folder: string): FolderScan | undefined {
    const scan = scans.get(folder);
    if (scan === undefined && firstAtOnce) return remember(folder, runToEnd(scanFolder(folder)));
    if (scan === undefined || isDue(folder, scan)) scanInBackground(folder);
    return scan && remember(folder, scan);
  }

  return {
    findNames(folder) {
      const few = scans.has(folder) ? undefined : readFewNames(folder);
      if (few !== undefined) return { names: limitNames(few), isCurrent: () => true };
      const found = findLastScan(folder);
      if (found === undefined) return { names: stillScanning, isCurrent: () => firstScans.has(folder) };
      return {
        names: limitNames([...new Set([...found.names, ...plainlyFollowedIn(folder)])]),
        isCurrent: () =>
          scans.get(folder)?.names === found.names && (runningScans.has(folder) || !isDue(folder, found)),
      };
    },
    pendingScan: () => [...firstScans.values()].at(-1),
    countFinishedScans: () => finishedScans,
  };
}

/** Undefined where there are more than can be read at once. */
function readFewNames(folder: string): string[] | undefined {
  const names: string[] = [];
  let count = 0;
  for (const entry of readEntries(folder)) {
    if (++count > maxAtOnce) return undefined;
    if (isFollowed(entry)) names.push(entry.name);
  }
  return names;
}

/** A step for every few names, so that others can go on in between. */
function* scanFolder(folder: string): Generator<void, FolderScan> {
  const mark = contentMark(folder);
  const names = new Set<string>();
  let count = 0;
  for (const entry of readEntries(folder)) {
    if (isFollowed(entry) && names.size <= maxFollowed) names.add(entry.name);
    if (++count % 64 === 0) yield;
  }
  return { mark, names, count, pauseUntil: performance.now() + count / namesPerPauseMs };
}

function runToEnd<T>(work: Generator<void, T>): T {
  for (;;) {
    const step = work.next();
    if (step.done) return step.value;
  }
}

function limitNames(names: readonly string[]): readonly string[] | NamesUnknownError {
  return names.length > maxFollowed ? tooManyNames : names;
}

/** Which thing was found at a place. */
export function fileIdentity(found: Stats | undefined): string {
  return found === undefined ? '' : `${found.dev}:${found.ino}:${found.mode & 0o170000}`;
}

/** What a file or folder holds, as far as its own facts tell. */
export function contentMark(path: string): string {
  const stats = statAt(path);
  return stats === undefined
    ? ''
    : `${stats.dev}:${stats.ino}:${stats.mode}:${stats.size}:${stats.mtimeMs}:${stats.ctimeMs}`;
}

function statAt(path: string): Stats | undefined {
  try {
    return statSync(path, { throwIfNoEntry: false });
  } catch {
    return undefined;
  }
}
