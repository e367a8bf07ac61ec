import { randomBytes } from 'node:crypto';
import { closeSync, fstatSync, openSync, readSync, renameSync, statSync, unlinkSync } from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { listNames } from '../../lib/fs/if-present.ts';
import { makeFilePrivate, makePrivateFolder } from '../../lib/fs/private-files.ts';
import type { Log } from '../log/log.ts';
import { findSummaryPath } from './statistics/summary-files.ts';

/** How much of the journal is kept. The oldest files are deleted first. */
export interface JournalLimits {
  /** A closed file is deleted this many days after its last line. */
  readonly keepDays: number;
  /** The most that all files may take together. */
  readonly maxTotalMb: number;
}

export const defaultJournalLimits: JournalLimits = { keepDays: 30, maxTotalMb: 1024 };

/** The files that were deleted because of the limits. */
interface DeletedFiles {
  readonly files: number;
  readonly bytes: number;
  /** The time of the last line in them. */
  readonly until: string;
}

/** The file that this process appends to. Its methods do not throw. */
export interface JournalFile {
  descriptor(): number;
  /**
   * Closes a file that is too large or of an earlier day, and follows when another process has done so. Returns true if
   * the descriptor has changed. No write may be in progress.
   */
  advance(): boolean;
  /** Deletes closed files beyond the limits; undefined if there were none. */
  deleteOld(): DeletedFiles | undefined;
  close(): void;
}

export interface JournalOptions {
  /** Read before each use, since a reload may change them. */
  readonly limits?: () => JournalLimits;
  readonly now?: () => number;
}

const mb = 1 << 20;
const dayMs = 86_400_000;
const maxFileBytes = 64 * mb;
/** With a small limit, files are smaller: deletion removes an eighth at most. */
const minFileCount = 8;
const closedName = /-\d{8}T\d{9}Z-[0-9a-f]{6}\.jsonl$/;
const timePrefix = '{"time":"';

/** Returns the file to which new lines are appended. Closed files lie beside it. */
export function journalPath(dataDir: string): string {
  return join(dataDir, 'journal', 'journal.jsonl');
}

/** Lists the paths of the closed files, oldest first. Other files in the folder are ignored. */
export function listClosedFiles(file: string): string[] {
  const start = basename(file, '.jsonl');
  return listNames(dirname(file))
    .filter((name) => closedName.test(name) && name.replace(closedName, '') === start)
    .sort()
    .map((name) => join(dirname(file), name));
}

/** Reads the time at the start of a line, as written by the journal; undefined if there is none. */
export function readLineTime(line: Buffer): string | undefined {
  const text = line.toString('latin1', 0, timePrefix.length + 24);
  return text.startsWith(timePrefix) && text.length === timePrefix.length + 24
    ? text.slice(timePrefix.length)
    : undefined;
}

/**
 * Opens the file for appending. Several processes may write to it: each line is appended whole. To close a file, a
 * process renames it; the others see before their next write that the name is free or leads elsewhere. A line that is
 * written in between goes to the renamed file, so no line is lost and no lock is needed. `onClosed` is called when this
 * process has closed a file.
 */
export function openJournalFile(
  file: string,
  log: Pick<Log, 'warn'>,
  onClosed: () => void,
  { limits = () => defaultJournalLimits, now = Date.now }: JournalOptions,
): JournalFile {
  makePrivateFolder(dirname(file));
  let current = openCurrent(file, now());
  let isFailing = false;

  /** Runs a step of the rotation. If it fails, the open file takes the lines until it works again. */
  function attempt<T>(step: () => T, otherwise: T): T {
    try {
      const done = step();
      isFailing = false;
      return done;
    } catch (error) {
      if (!isFailing) log.warn('journal cannot be rotated', { error: (error as Error).message });
      isFailing = true;
      return otherwise;
    }
  }

  function isFull(size: number): boolean {
    if (size === 0) return false;
    const maxBytes = Math.min(maxFileBytes, (limits().maxTotalMb * mb) / minFileCount);
    return size >= maxBytes || findDay(now()) > current.day;
  }

  function advance(): boolean {
    const stats = statSync(file, { throwIfNoEntry: false });
    const isCurrent = stats !== undefined && stats.ino === current.inode && stats.dev === current.device;
    if (isCurrent && !isFull(stats.size)) return false;
    if (isCurrent) renameSync(file, createClosedName(file, now()));
    const { descriptor } = current;
    current = openCurrent(file, now());
    closeSync(descriptor);
    if (isCurrent) onClosed();
    return true;
  }

  return {
    descriptor: () => current.descriptor,
    advance: () => attempt(advance, false),
    deleteOld: () => attempt(() => deleteBeyond(file, limits(), now()), undefined),
    close: () => closeSync(current.descriptor),
  };
}

interface CurrentFile {
  readonly descriptor: number;
  readonly inode: number;
  readonly device: number;
  /** The day of its first line. */
  readonly day: string;
}

function openCurrent(file: string, now: number): CurrentFile {
  makeFilePrivate(file);
  const descriptor = openSync(file, 'a+', 0o600);
  const { ino: inode, dev: device, size, mtimeMs } = fstatSync(descriptor);
  const start = Buffer.alloc(64);
  const length = readSync(descriptor, start, 0, start.length, 0);
  const first = readLineTime(start.subarray(0, length));
  return { descriptor, inode, device, day: first?.slice(0, 10) ?? findDay(size === 0 ? now : mtimeMs) };
}

function findDay(time: number): string {
  return new Date(time).toISOString().slice(0, 10);
}

/** Creates a name that no other process chooses at the same time. Names have the order of their times. */
function createClosedName(file: string, now: number): string {
  const time = new Date(now).toISOString().replace(/[-:.]/g, '');
  return `${file.replace(/\.jsonl$/, '')}-${time}-${randomBytes(3).toString('hex')}.jsonl`;
}

function deleteBeyond(file: string, { keepDays, maxTotalMb }: JournalLimits, now: number): DeletedFiles | undefined {
  const closed = listClosedFiles(file).flatMap((path) => {
    const stats = statSync(path, { throwIfNoEntry: false });
    return stats === undefined ? [] : [{ path, size: stats.size, writtenAt: stats.mtimeMs }];
  });
  // The current file will grow, too.
  const maxBytes = maxTotalMb * mb - Math.min(maxFileBytes, (maxTotalMb * mb) / minFileCount);
  let total = closed.reduce((sum, { size }) => sum + size, 0);
  let [files, bytes, until] = [0, 0, 0];
  for (const { path, size, writtenAt } of closed) {
    if (total <= maxBytes && writtenAt >= now - keepDays * dayMs) continue;
    total -= size;
    if (!removeFile(path)) continue;
    removeFile(findSummaryPath(path));
    files++;
    bytes += size;
    until = Math.max(until, writtenAt);
  }
  return files === 0 ? undefined : { files, bytes, until: new Date(until).toISOString() };
}

/** Removes a file. False if it cannot be removed, or another process was first. */
function removeFile(path: string): boolean {
  try {
    unlinkSync(path);
    return true;
  } catch {
    return false;
  }
}

/** A file that is open for reading. */
export interface OpenedJournalFile {
  readonly handle: FileHandle;
  readonly inode: number;
  readonly size: number;
}

/**
 * Opens one file after the other, newest first. The current file is opened before the closed ones are listed: if it is
 * closed meanwhile, it is among them and is not read again.
 */
export async function* openNewestFirst(file: string): AsyncGenerator<OpenedJournalFile> {
  const seen = new Set<number>();
  const current = await openIfPresent(file);
  const closed = listClosedFiles(file).toReversed();
  for (const opened of [current, ...closed.map((path) => () => openIfPresent(path))]) {
    const found = typeof opened === 'function' ? await opened() : opened;
    if (found === undefined) continue;
    try {
      if (!seen.has(found.inode)) yield found;
      seen.add(found.inode);
    } finally {
      await found.handle.close();
    }
  }
}

/** Opens a file. Undefined if it does not exist, for instance because it was deleted meanwhile. */
export async function openIfPresent(path: string): Promise<OpenedJournalFile | undefined> {
  try {
    const handle = await open(path, 'r');
    const { ino: inode, size } = await handle.stat();
    return { handle, inode, size };
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
}
