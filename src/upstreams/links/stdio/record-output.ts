import type { Readable } from 'node:stream';
import type { Journal } from '../../../observability/journal/journal.ts';

const lineBytes = 4096;
const linesPerWindow = 50;
const windowMs = 1000;
const newline = 10;
const carriageReturn = 13;
const noBytes = Buffer.alloc(0);

/**
 * What a server says on stderr goes to the journal, as much as a person could read. What is beyond that is counted and
 * dropped as it comes, without being split into lines: a flood of short lines would hold up everybody else.
 */
export function recordStderr(stderr: Readable, record: (line: string, dropped?: number) => void): void {
  let windowStart = 0;
  let seen = 0;
  let dropped = 0;
  /** The start of a line whose end has not come. */
  let open = noBytes;
  /** The start of that line was dropped, and so is the rest. */
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
    // A copy: the chunk may be long, and the line may stay open.
    if (!skipping && room > 0) open = Buffer.concat([open, piece.subarray(0, room)]);
  }

  function finishLine(): void {
    const line = open[open.length - 1] === carriageReturn ? open.subarray(0, -1) : open;
    open = noBytes;
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
      // Empty lines are not told, but looking at them takes its time too.
      seen++;
      from = at + 1;
    }
  });
  stderr.on('end', finishLine);
}

/** Counts the messages of a server that are dropped, by reason. `record` writes the counts to the journal. */
export interface DroppedMessageCounter {
  add(what: string): void;
  record(): void;
}

export function droppedMessageCounter(
  journal: Journal,
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
