import { type Stats, statSync } from 'node:fs';
import { isProtectedNonFile, iterateFolder, listKnownProtectedNonFiles } from '../../../lib/fs/protected-paths.ts';
import { createYielder } from '../../saferoot/time-slice.ts';

/** The links in a folder are not known. The message is the reason why nothing may be changed. */
export class NamesUnknownError extends Error {
  constructor(what: string) {
    super(what);
    this.name = 'NamesUnknownError';
  }
}

/** Finds names in folders that other programs follow because of what they are called. */
export interface FollowedNames {
  /** The names are unknown while a large folder is being scanned, or when there are too many. */
  findNames(folder: string): { readonly names: readonly string[] | NamesUnknownError; isCurrent(): boolean };
  /** The first scan of a large folder, while one runs. */
  pendingScan(): Promise<void> | undefined;
  countFinishedScans(): number;
}

export interface FollowedNamesOptions {
  readonly onScanned?: () => void;
  /** Runs the first scan of a large folder at once, for callers that cannot wait. */
  readonly firstAtOnce?: boolean;
}

const stillScanning = new NamesUnknownError('its folder has very many entries, which are still being checked');
const tooManyNames = new NamesUnknownError('its folder has too many protected symbolic links');
/** Few enough to be read after every change of the folder. */
const maxAtOnce = 1000;
const maxFollowed = 2000;
const maxRemembered = 500;
/** A large folder is scanned again after a pause that is longer than the scan. */
const namesPerPauseMs = 100;

interface FolderScan {
  /** The mark of the folder before the scan. */
  readonly mark: string;
  readonly names: ReadonlySet<string>;
  readonly count: number;
  readonly pauseUntil: number;
}

/**
 * Avoids reading a large folder for each change in it. Fixed names are looked up each time; names that match a pattern
 * are those of the last scan, which runs in the background.
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
        names: limitNames([...new Set([...found.names, ...listKnownProtectedNonFiles(folder)])]),
        isCurrent: () =>
          scans.get(folder)?.names === found.names && (runningScans.has(folder) || !isDue(folder, found)),
      };
    },
    pendingScan: () => [...firstScans.values()].at(-1),
    countFinishedScans: () => finishedScans,
  };
}

/** Returns undefined when there are too many to read at once. */
function readFewNames(folder: string): string[] | undefined {
  const names: string[] = [];
  let count = 0;
  for (const entry of iterateFolder(folder)) {
    if (++count > maxAtOnce) return undefined;
    if (isProtectedNonFile(entry)) names.push(entry.name);
  }
  return names;
}

/** Yields after every few names, so that other work can go on. */
function* scanFolder(folder: string): Generator<void, FolderScan> {
  const mark = contentMark(folder);
  const names = new Set<string>();
  let count = 0;
  for (const entry of iterateFolder(folder)) {
    if (isProtectedNonFile(entry) && names.size <= maxFollowed) names.add(entry.name);
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

export function fileIdentity(found: Stats | undefined): string {
  return found === undefined ? '' : `${found.dev}:${found.ino}:${found.mode & 0o170000}`;
}

/** Returns a mark that differs when the content of a file or folder has changed. */
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
