import type { Readable } from 'node:stream';
import { toPlainLine } from '../../../lib/text/escape-controls.ts';
import { formatCount } from '../../../lib/text/format-count.ts';
import type { Journal, JournalEntry } from '../../../observability/journal/journal.ts';

const lineBytes = 4096;
const linesPerWindow = 50;
const windowMs = 1000;
const newline = 10;
const carriageReturn = 13;
const blank = 32;
/** The length of a word that may be half a secret. */
const maxWordBytes = 1024;
const noBytes = Buffer.alloc(0);

/**
 * Records the stderr of a server in the journal, as much as a person could read. The rest is counted and dropped without
 * being split into lines: a flood of short lines would delay all other sessions.
 */
export function recordStderr(stderr: Readable, record: (line: string, dropped?: number) => void): void {
  let windowStart = 0;
  let seen = 0;
  let dropped = 0;
  /** The start of an unfinished line. */
  let open = noBytes;
  /** True when the rest of this line was left out. */
  let isCut = false;
  /** True while the rest of a dropped line is skipped. */
  let skipping = false;

  function isFull(): boolean {
    const now = Date.now();
    if (now - windowStart > windowMs) {
      windowStart = now;
      seen = 0;
    }
    return seen >= linesPerWindow;
  }

  function appendToLine(piece: Buffer): void {
    const room = lineBytes - open.length;
    // The copy frees the chunk, which may be long.
    if (!skipping && room > 0) open = Buffer.concat([open, piece.subarray(0, room)]);
    isCut ||= piece.length > room;
  }

  function finishLine(): void {
    const whole = open[open.length - 1] === carriageReturn ? open.subarray(0, -1) : open;
    const line = isCut ? dropLastWord(whole) : whole;
    open = noBytes;
    isCut = false;
    if (skipping) {
      skipping = false;
      dropped++;
    } else if (line.length > 0) {
      record(line.toString('utf8'), dropped || undefined);
      dropped = 0;
    }
  }

  function dropLines(rest: Buffer): void {
    for (const byte of rest) if (byte === newline) dropped++;
    open = noBytes;
    isCut = false;
    skipping = rest[rest.length - 1] !== newline;
  }

  stderr.on('data', (chunk: Buffer) => {
    let from = 0;
    while (from < chunk.length) {
      if (isFull()) {
        dropLines(chunk.subarray(from));
        return;
      }
      const at = chunk.indexOf(newline, from);
      appendToLine(chunk.subarray(from, at === -1 ? chunk.length : at));
      if (at === -1) return;
      finishLine();
      // Empty lines count too: reading them takes time.
      seen++;
      from = at + 1;
    }
  });
  stderr.on('end', finishLine);
}

/** Drops the end of a line that was cut: half a secret would not be recognised. */
function dropLastWord(line: Buffer): Buffer {
  const end = line.subarray(-maxWordBytes);
  const at = end.findLastIndex((byte) => byte <= blank);
  return line.subarray(0, line.length - end.length + Math.max(0, at));
}

/** Counts the messages of a server that are dropped, by reason. `record` writes the counts to the journal. */
export interface DroppedMessageCounter {
  add(what: string): void;
  record(): void;
}

export function droppedMessageCounter(
  journal: Pick<Journal, 'record'>,
  source: { readonly sessionId: string | undefined; readonly server: string },
): DroppedMessageCounter {
  const counts = new Map<string, number>();
  return {
    add(what) {
      counts.set(what, (counts.get(what) ?? 0) + 1);
    },
    record() {
      for (const [what, count] of counts) journal.record({ kind: 'process', ...source, event: 'noise', what, count });
      counts.clear();
    },
  };
}

/** Reports a line of stderr, without secrets, to the journal and to others. */
export function reportStderr(
  fields: JournalEntry,
  written: { readonly pid: number | undefined; readonly line: string; readonly dropped: number | undefined },
  {
    journal,
    watch,
  }: {
    readonly journal: Pick<Journal, 'record'>;
    readonly watch: { wrote(line: string, pid: number | undefined): void };
  },
): void {
  const { pid, line, dropped } = written;
  journal.record({ ...fields, event: 'stderr', ...written });
  if (dropped !== undefined) watch.wrote(`(${formatCount(dropped, 'line')} left out)`, pid);
  watch.wrote(toPlainLine(line), pid);
}
