import { type FileHandle, stat } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';
import { listClosedFiles, type OpenedJournalFile, openIfPresent, openNewestFirst } from './journal-files.ts';
import {
  type EntriesPage,
  maxLineBytes,
  newLine,
  parseEntry,
  type RecordedEntry,
  searchEntries,
} from './read-entries.ts';

interface FollowListener {
  entry(entry: RecordedEntry): Promise<void>;
  /** Called for lines that are no entries. */
  unreadable(count: number): void;
}

export interface FollowOptions {
  /** The number of earlier entries to begin with. */
  readonly last: number;
  readonly signal: AbortSignal;
  readonly pollMs?: number;
}

/**
 * Reads the last entries, and then each new one as it is written, oldest first. Closed files are watched too: another
 * process may still append a line to one. Resolves when the signal aborts.
 */
export async function followEntries(
  file: string,
  { last, signal, pollMs = 200 }: FollowOptions,
  listener: FollowListener,
): Promise<void> {
  const positions = new Map<number, number>();
  /** The cursor of the newest line. What is written from now on comes later. */
  let before: string | null = null;
  for await (const { handle, inode, size } of openNewestFirst(file)) {
    positions.set(inode, await findLastLineEnd(handle, size));
    before ??= `${inode}-${positions.get(inode)}`;
  }
  for (const entry of await readLastEntries(file, last, before, listener)) await listener.entry(entry);
  while (!signal.aborted) {
    if (await readNewEntries(file, positions, listener)) continue;
    await delay(pollMs, undefined, { signal }).catch(() => {});
  }
}

async function readLastEntries(
  file: string,
  last: number,
  newest: string | null,
  listener: FollowListener,
): Promise<RecordedEntry[]> {
  const found: RecordedEntry[] = [];
  for (let before = newest; found.length < last && before !== null; ) {
    const page: EntriesPage = await searchEntries(file, {}, { limit: last - found.length, before });
    found.push(...page.entries);
    if (page.unreadable > 0) listener.unreadable(page.unreadable);
    before = page.next;
  }
  return found.reverse();
}

/** Reads what was appended to any file since the positions, and moves them on. Returns false if there was nothing. */
async function readNewEntries(file: string, positions: Map<number, number>, listener: FollowListener) {
  const present = new Set<number>();
  let hasNew = false;

  async function readFrom({ handle, inode, size }: OpenedJournalFile): Promise<void> {
    if (present.has(inode)) return;
    present.add(inode);
    const known = positions.get(inode) ?? 0;
    // A file that became shorter was emptied by another program.
    const from = known > size ? 0 : known;
    const reached = await readForwards(handle, from, size, listener);
    hasNew ||= reached > from;
    positions.set(inode, reached);
  }

  // Opened before the closed ones are listed, as in `openNewestFirst`.
  const current = await openIfPresent(file);
  try {
    for (const path of listClosedFiles(file)) {
      const stats = await stat(path).catch(() => undefined);
      if (stats === undefined) continue;
      const closed = stats.size === positions.get(stats.ino) ? undefined : await openIfPresent(path);
      if (closed === undefined) present.add(stats.ino);
      else await readFrom(closed).finally(() => closed.handle.close());
    }
    if (current !== undefined) await readFrom(current);
  } finally {
    await current?.handle.close();
  }
  for (const inode of positions.keys()) if (!present.has(inode)) positions.delete(inode);
  return hasNew;
}

/** Reads the whole lines between two positions. Returns the end of the last one. */
async function readForwards(handle: FileHandle, from: number, size: number, listener: FollowListener) {
  let at = from;
  while (at < size) {
    const piece = Buffer.alloc(Math.min(size - at, maxLineBytes));
    const { bytesRead } = await handle.read(piece, 0, piece.length, at);
    const end = piece.lastIndexOf(newLine, bytesRead - 1) + 1;
    if (end === 0 && bytesRead < maxLineBytes) break;
    for (let start = 0; start < end; ) {
      const lineEnd = piece.indexOf(newLine, start);
      await passOn(piece.subarray(start, lineEnd), listener);
      start = lineEnd + 1;
    }
    // Of a line that is too long, the end is read as a line of its own, which is no entry.
    at += end === 0 ? bytesRead : end;
  }
  return at;
}

async function passOn(line: Buffer, listener: FollowListener): Promise<void> {
  if (line.length === 0) return;
  let entry: RecordedEntry;
  try {
    entry = parseEntry(line);
  } catch {
    listener.unreadable(1);
    return;
  }
  await listener.entry(entry);
}

/** Finds the end of the last whole line: the rest of another one may just be written. */
async function findLastLineEnd(handle: FileHandle, size: number): Promise<number> {
  const piece = Buffer.alloc(Math.min(size, maxLineBytes));
  const { bytesRead } = await handle.read(piece, 0, piece.length, size - piece.length);
  const end = bytesRead === 0 ? 0 : piece.lastIndexOf(newLine, bytesRead - 1) + 1;
  return end === 0 ? size : size - piece.length + end;
}
