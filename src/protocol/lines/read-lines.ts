import type { Readable } from 'node:stream';
import { createLineEnds, createPieces, keptEndBytes, type LineEnds } from './line-buffer.ts';

/** What one sender may have looked at before everybody else gets a turn. */
export const linesPerTurn = 64;

const bytesPerTurn = 256 * 1024;

/** The share that one sender has in a turn of the event loop. */
interface TurnBudget {
  /** Counts one more line as looked at. */
  spend(bytes: number): void;
  /** True from the moment when the share is used up until `goOn` is called. */
  isOver(): boolean;
}

export interface LineOptions {
  /** The longest line delivered, its line end not counted. */
  readonly maxBytes: number;
  /** A line without its line end. It may share memory with its neighbours: copy what is kept for long. */
  onLine(line: Buffer): void;
  /** A line over maxBytes has been discarded; its first and last 1024 bytes, which may overlap. */
  onTooLong(head: Buffer, tail: Buffer): void;
  /** A line has grown over four times maxBytes; called once for it, and onTooLong is not. */
  onRunaway(): void;
  /** The stream is over and everything has been delivered. */
  onEnd?(): void;
}

export interface LineReader {
  /** No further line is delivered until resume, not even those that have already arrived. */
  pause(): void;
  resume(): void;
}

const newline = 10;
const carriageReturn = 13;

/**
 * Splits a stream into lines, skipping empty ones. Memory stays bounded whatever arrives, and so does the time that a
 * flood of lines takes from others: it is looked at bit by bit, each in a turn of its own.
 */
export function readLines(stream: Readable, options: LineOptions): LineReader {
  const { maxBytes } = options;
  const runawayBytes = 4 * maxBytes;
  const waiting: Buffer[] = [];
  const opening = createPieces();
  // Of the line whose newline has not come: how long it is, and its two ends once it is too long to keep.
  let held = 0;
  let ends: LineEnds | undefined;
  let isRunaway = false;
  let isPaused = false;
  let isWorking = false;
  let over: 'no' | 'ended' | 'closed' | 'told' = 'no';
  const budget = createTurns(continueReading);

  function holdPiece(piece: Buffer): void {
    held += piece.length;
    // One byte more may be the carriage return of a line that just fits.
    if (ends === undefined && held <= maxBytes + 1) {
      opening.add(piece);
      return;
    }
    if (ends === undefined) {
      ends = createLineEnds();
      for (const earlier of opening.take()) ends.add(earlier);
    }
    ends.add(piece);
    if (!isRunaway && held > runawayBytes + 1) {
      isRunaway = true;
      options.onRunaway();
    }
  }

  function deliver(line: Buffer): void {
    const length = line.length;
    if (length === 0) return;
    if (length <= maxBytes) options.onLine(line);
    else if (length > runawayBytes) options.onRunaway();
    else options.onTooLong(line.subarray(0, keptEndBytes), line.subarray(Math.max(0, length - keptEndBytes)));
  }

  function finishHeld(): void {
    const length = held;
    const cut = ends;
    const wasRunaway = isRunaway;
    held = 0;
    ends = undefined;
    isRunaway = false;
    if (cut === undefined) {
      const line = Buffer.concat(opening.take(), length);
      deliver(line[length - 1] === carriageReturn ? line.subarray(0, -1) : line);
      return;
    }
    if (wasRunaway) return;
    const content = cut.endsInCarriageReturn() ? length - 1 : length;
    if (content > runawayBytes) options.onRunaway();
    else options.onTooLong(cut.head(content), cut.tail(content));
  }

  /** What has arrived of a stream that is over is bounded. It is delivered at once, before anybody is told the end. */
  function mustWait(): boolean {
    return isPaused || (over === 'no' && budget.isOver());
  }

  /** What is left of the chunk when a line made the reader pause, or was the last of its turn. */
  function split(chunk: Buffer): Buffer | undefined {
    let from = 0;
    while (from < chunk.length) {
      const at = chunk.indexOf(newline, from);
      if (at === -1) {
        holdPiece(from === 0 ? chunk : chunk.subarray(from));
        return undefined;
      }
      if (held === 0) {
        const end = at > from && chunk[at - 1] === carriageReturn ? at - 1 : at;
        budget.spend(end - from);
        deliver(chunk.subarray(from, end));
      } else {
        if (at > from) holdPiece(chunk.subarray(from, at));
        // Nobody reads a line that is too long.
        budget.spend(ends === undefined ? held : 0);
        finishHeld();
      }
      from = at + 1;
      if (mustWait()) return from < chunk.length ? chunk.subarray(from) : undefined;
    }
    return undefined;
  }

  function work(): void {
    if (isWorking) return;
    isWorking = true;
    try {
      while (!mustWait()) {
        const chunk = waiting.shift();
        if (chunk === undefined) break;
        const rest = split(chunk);
        if (rest !== undefined) waiting.unshift(rest);
      }
      if (over === 'ended' && !isPaused && held > 0) finishHeld();
      if ((over === 'ended' || over === 'closed') && !isPaused) {
        over = 'told';
        options.onEnd?.();
      }
    } finally {
      isWorking = false;
    }
  }

  function continueReading(): void {
    work();
    if (!mustWait() && over === 'no') stream.resume();
  }

  stream.on('data', (chunk: Buffer) => {
    waiting.push(chunk);
    // Node sets a child's streams flowing again when the child exits, paused or not.
    if (mustWait()) stream.pause();
    else work();
  });
  stream.on('end', () => {
    if (over === 'no') over = 'ended';
    work();
  });
  stream.on('close', () => {
    if (over === 'no') over = 'closed';
    work();
  });

  return {
    pause() {
      isPaused = true;
      stream.pause();
    },
    resume() {
      isPaused = false;
      continueReading();
    },
  };
}

/** Lets one sender have its share, and then calls `goOn` in the next turn. */
export function createTurns(continueReading: () => void): TurnBudget {
  let lines = 0;
  let bytes = 0;
  let isSpent = false;

  function startNextTurn(): void {
    lines = 0;
    bytes = 0;
    isSpent = false;
    continueReading();
  }

  return {
    spend(size) {
      bytes += size;
      if (++lines < linesPerTurn && bytes < bytesPerTurn) return;
      if (isSpent) return;
      isSpent = true;
      setImmediate(startNextTurn);
    },
    isOver: () => isSpent,
  };
}
