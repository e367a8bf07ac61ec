import { stat } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';
import { listClosedFiles, openIfPresent } from '../journal-files.ts';
import { maxLineBytes, newLine } from '../read-entries.ts';
import { condenseTally } from './condense-tally.ts';
import { type OpenTally, openTally } from './open-tally.ts';
import { chooseSteps, composeStatistics, type Statistics, type StatisticsQuery } from './statistics.ts';
import { type FileVersion, loadSummary, removeOrphans, saveSummary } from './summary-files.ts';
import type { Tally } from './tally.ts';

export interface StatisticsReader {
  /** Ends early when the signal is aborted. Then the answer is not complete. */
  read(query: StatisticsQuery, gone?: AbortSignal): Promise<Statistics>;
}

/** A journal file, as it was found in the folder. */
interface FoundFile extends FileVersion {
  readonly path: string;
  readonly isClosed: boolean;
}

/** The counts of a file so far. */
interface FileCount {
  /** Undefined for a closed file that was counted to its end. */
  open: OpenTally | undefined;
  tally: Tally;
  /** The end of the last whole line that was counted. */
  position: number;
  /** The size of the file when it was last read to its end. */
  readSize: number;
  savedSize: number;
  reading: Promise<void> | undefined;
}

/** The counts of all files, or of the lines of one session in them, by inode. */
type FileCounts = Map<number, FileCount>;

const maxWaitMs = 2000;
/** Several processes write at their own pace, so a line may be this much older than those before it. */
const maxDisorderMs = 60_000;
const pieceBytes = 1 << 20;
/** Numbers of single sessions are kept for as many as people look at. */
const maxSessions = 8;

/** The lines that are read: those with the mark, or all. */
interface Selection {
  readonly mark: Buffer | undefined;
  /** False when nobody needs the numbers any more. */
  readonly isWanted: () => boolean;
}

/** Creates the reader of one journal. It keeps what it has counted, and reads on from there. */
export function createStatisticsReader(file: string): StatisticsReader {
  const all: FileCounts = new Map();
  const bySession = new Map<string, FileCounts>();
  let lastTurn: Promise<void> = Promise.resolve();

  /** Single sessions are read one after the other: each read takes an open file and a megabyte. */
  function readInTurn(read: () => Promise<void>): Promise<void> {
    const done = lastTurn.then(read);
    lastTurn = done.catch(() => {});
    return done;
  }

  function openCounts(session: string | undefined): FileCounts {
    if (session === undefined) return all;
    const counts = bySession.get(session) ?? new Map<number, FileCount>();
    // The session that was asked for last comes last.
    bySession.delete(session);
    bySession.set(session, counts);
    const [oldest] = bySession.keys();
    if (bySession.size > maxSessions && oldest !== undefined) bySession.delete(oldest);
    return counts;
  }

  return {
    async read(query, gone) {
      const range = chooseSteps(query);
      const { session } = query;
      const mark =
        session === undefined ? undefined : Buffer.from(`"sessionId":${JSON.stringify(session).slice(0, -1)}`);
      const counts = openCounts(session);
      const { files, wanted } = await findFiles(file, range.from);
      const present = new Set(files.map(({ inode }) => inode));
      for (const inode of counts.keys()) if (!present.has(inode)) counts.delete(inode);
      if (session === undefined)
        await removeOrphans(
          file,
          files.filter(({ isClosed }) => isClosed).map(({ path }) => path),
        );
      const waiting = new AbortController();
      const { signal } = waiting;
      // The numbers of all sessions are read once for everybody.
      const isWanted = () =>
        session === undefined || (gone?.aborted !== true && (!signal.aborted || bySession.get(session) === counts));
      const read = () => readFiles(wanted, counts, { mark, isWanted });
      const reading = session === undefined ? read() : readInTurn(read);
      const ended = gone === undefined ? signal : AbortSignal.any([signal, gone]);
      const timeUp = delay(query.maxWaitMs ?? maxWaitMs, undefined, { signal: ended }).catch(() => {});
      await Promise.race([reading, timeUp]).finally(() => waiting.abort());
      reading.catch(() => {});
      const complete = wanted.every(({ inode, size }) => (counts.get(inode)?.readSize ?? 0) >= size);
      return composeStatistics(
        [...counts.values()].map(({ tally }) => tally),
        range,
        complete,
      );
    },
  };
}

/** Finds the files of the journal, newest first, and those among them that may have lines after a time. */
async function findFiles(file: string, since: number) {
  const files = new Map<number, FoundFile & { readonly writtenAt: number }>();
  // The current file comes first: if it is closed meanwhile, it is found again as a closed one.
  const current = await stat(file).catch(() => undefined);
  for (const path of [undefined, ...listClosedFiles(file).toReversed()]) {
    const stats = path === undefined ? current : await stat(path).catch(() => undefined);
    if (stats === undefined) continue;
    const { ino: inode, size, mtimeMs: writtenAt } = stats;
    files.set(inode, { path: path ?? file, inode, size, writtenAt, isClosed: path !== undefined });
  }
  const found = [...files.values()];
  return { files: found, wanted: found.filter(({ writtenAt }) => writtenAt >= since - maxDisorderMs) };
}

/** Counts what is new in the files, one after the other. */
async function readFiles(files: readonly FoundFile[], counts: FileCounts, selection: Selection): Promise<void> {
  for (const found of files) {
    if (!selection.isWanted()) return;
    let count = counts.get(found.inode);
    if (count === undefined) {
      count = createCount();
      counts.set(found.inode, count);
    }
    const current = count;
    current.reading ??= readFile(found, current, selection).finally(() => {
      current.reading = undefined;
    });
    await current.reading;
  }
}

function createCount(): FileCount {
  return { ...startCount(), savedSize: -1, reading: undefined };
}

function startCount(): Pick<FileCount, 'open' | 'tally' | 'position' | 'readSize'> {
  const open = openTally();
  return { open, tally: open.tally, position: 0, readSize: -1 };
}

async function readFile(found: FoundFile, count: FileCount, selection: Selection): Promise<void> {
  const { path, inode, size, isClosed } = found;
  const isSummarized = isClosed && selection.mark === undefined;
  if (count.readSize === size && (count.savedSize === size || !isSummarized)) return;
  if (isSummarized && count.readSize === -1) {
    const summary = await loadSummary(path, found);
    if (summary !== undefined) {
      Object.assign(count, { open: undefined, tally: summary, readSize: size, savedSize: size });
      return;
    }
  }
  // A file that became shorter was emptied by another program. A late line in a closed file is rare.
  if (count.open === undefined || size < count.position) Object.assign(count, startCount());
  if (!(await readLines(found, count, selection))) return;
  count.readSize = size;
  if (!isSummarized) return;
  // From here on the thread knows as much as it would after a restart. Without a summary, it reads the file again then.
  const tally = condenseTally(count.tally);
  await saveSummary(path, { inode, size }, tally).catch(() => {});
  Object.assign(count, { open: undefined, tally, savedSize: size });
}

/** Counts the whole lines after the position. Returns false if the file is gone, or nobody needs its numbers any more. */
async function readLines(
  { path, inode, size }: FoundFile,
  count: FileCount,
  { mark, isWanted }: Selection,
): Promise<boolean> {
  const opened = await openIfPresent(path);
  if (opened === undefined) return false;
  try {
    if (opened.inode !== inode) return false;
    const piece = Buffer.alloc(Math.min(pieceBytes, Math.max(0, size - count.position)));
    while (count.position < size) {
      if (!isWanted()) return false;
      const wanted = Math.min(piece.length, size - count.position);
      const { bytesRead } = await opened.handle.read(piece, 0, wanted, count.position);
      if (bytesRead === 0) return false;
      const end = piece.lastIndexOf(newLine, bytesRead - 1) + 1;
      // The rest of the last line may just be written.
      if (end === 0 && bytesRead < maxLineBytes) break;
      countLines(piece.subarray(0, end), count, mark);
      // Of a line that is too long, the end is read as a line of its own, which is no entry.
      count.position += end === 0 ? bytesRead : end;
    }
    return true;
  } finally {
    await opened.handle.close();
  }
}

/** Counts the entries of whole lines; with a mark, only of lines that contain it. */
function countLines(lines: Buffer, { open }: FileCount, mark: Buffer | undefined): void {
  for (let start = 0; start < lines.length; ) {
    if (mark !== undefined) {
      const at = lines.indexOf(mark, start);
      if (at === -1) return;
      start = Math.max(start, lines.lastIndexOf(newLine, at) + 1);
    }
    const end = lines.indexOf(newLine, start);
    if (!isUncounted(lines, start, end)) countLine(lines.toString('utf8', start, end), open, mark);
    start = end + 1;
  }
}

/** The position of the kind in a line that the journal has written. */
const kindAt = '{"time":"2026-11-15T09:00:00.000Z","kind":"'.length;
const kindBefore = '","kind":"';
/** The first letters of the kinds file, egress and gateway. */
const uncountedLetters: readonly number[] = [0x66, 0x65, 0x67];
const [letterP, letterU] = [0x70, 0x75];
const startEvent = Buffer.from('"event":"start');

/** Recognizes most lines without counts by their kind. */
function isUncounted(lines: Buffer, start: number, end: number): boolean {
  const at = start + kindAt;
  if (at >= end || lines.toString('latin1', at - kindBefore.length, at) !== kindBefore) return false;
  if (lines[at] !== letterP) return uncountedLetters.includes(lines[at] as number);
  // Both "push" and "process" begin with this letter. Most lines about a process are what it wrote to stderr.
  return lines[at + 1] === letterU || !lines.subarray(at, end).includes(startEvent);
}

function countLine(line: string, open: OpenTally | undefined, mark: Buffer | undefined): void {
  let entry: unknown;
  try {
    entry = JSON.parse(line);
  } catch {
    // A line that a crash has cut off.
    return;
  }
  if (typeof entry !== 'object' || entry === null) return;
  const fields = entry as Readonly<Record<string, unknown>>;
  const { time, sessionId } = fields;
  const at = typeof time === 'string' ? Date.parse(time) : Number.NaN;
  // The value of another member may look like the mark.
  const isMarked = mark === undefined || `"sessionId":${JSON.stringify(sessionId)}`.startsWith(mark.toString());
  if (isMarked && at >= 0) open?.add(fields, at);
}
