import type { Readable } from 'node:stream';
import { createLineEnds, createPieceBuffer, keptEndBytes, type LineEnds } from './line-buffer.ts';

interface LineOptions {
  /** Limit of a line, without its line end. */
  readonly maxBytes: number;
  /** Gets a line without its line end. It may share memory with its neighbours: copy it to keep it. */
  onLine(line: Buffer): void;
  /** Called for a discarded line over maxBytes, with its first and last 1024 bytes, which may overlap. */
  onTooLong(head: Buffer, tail: Buffer): void;
  /** Called once when a line grows over four times maxBytes; onTooLong is then not called. */
  onRunaway(): void;
  /** Called when the stream has ended and everything was delivered. */
  onEnd?(): void;
}

export interface LineReader {
  /** Stops the delivery of lines until resume, also of those that have arrived. */
  pause(): void;
  resume(): void;
}

const newline = 10;
const carriageReturn = 13;

/**
 * Splits a stream into lines, skipping empty ones. Memory stays bounded whatever arrives. A flood of lines is processed
 * in parts, each in a turn of the event loop, so that others are served.
 */
export function readLines(stream: Readable, options: LineOptions): LineReader {
  const { maxBytes } = options;
  const runawayBytes = 4 * maxBytes;
  const waiting: Buffer[] = [];
  const opening = createPieceBuffer();
  // Length of the unfinished line, and its two ends once it is too long to keep.
  let heldBytes = 0;
  let ends: LineEnds | undefined;
  let isRunaway = false;
  let isPaused = false;
  let isWorking = false;
  let over: 'no' | 'ended' | 'closed' | 'reported' = 'no';
  const budget = createTurnBudget(continueReading);

  function holdPiece(piece: Buffer): void {
    heldBytes += piece.length;
    // One byte more may be the carriage return of a line that just fits.
    if (ends === undefined && heldBytes <= maxBytes + 1) {
      opening.add(piece);
      return;
    }
    if (ends === undefined) {
      ends = createLineEnds();
      for (const earlier of opening.take()) ends.add(earlier);
    }
    ends.add(piece);
    if (!isRunaway && heldBytes > runawayBytes + 1) {
      isRunaway = true;
      options.onRunaway();
    }
  }

  function deliverLine(line: Buffer): void {
    const length = line.length;
    if (length === 0) return;
    if (length <= maxBytes) options.onLine(line);
    else if (length > runawayBytes) options.onRunaway();
    else options.onTooLong(line.subarray(0, keptEndBytes), line.subarray(Math.max(0, length - keptEndBytes)));
  }

  function finishHeld(): void {
    const length = heldBytes;
    const cut = ends;
    const wasRunaway = isRunaway;
    heldBytes = 0;
    ends = undefined;
    isRunaway = false;
    if (cut === undefined) {
      const line = Buffer.concat(opening.take(), length);
      deliverLine(line[length - 1] === carriageReturn ? line.subarray(0, -1) : line);
      return;
    }
    if (wasRunaway) return;
    const content = cut.endsInCarriageReturn() ? length - 1 : length;
    if (content > runawayBytes) options.onRunaway();
    else options.onTooLong(cut.head(content), cut.tail(content));
  }

  /** After the end of the stream the remaining data is bounded, and is delivered at once before onEnd. */
  function mustWait(): boolean {
    return isPaused || (over === 'no' && budget.isSpent());
  }

  /** Splits a chunk and returns the rest if a line paused the reader or used up its share. */
  function splitChunk(chunk: Buffer): Buffer | undefined {
    let from = 0;
    while (from < chunk.length) {
      const at = chunk.indexOf(newline, from);
      if (at === -1) {
        holdPiece(from === 0 ? chunk : chunk.subarray(from));
        return undefined;
      }
      if (heldBytes === 0) {
        const end = at > from && chunk[at - 1] === carriageReturn ? at - 1 : at;
        budget.spend(end - from);
        deliverLine(chunk.subarray(from, end));
      } else {
        if (at > from) holdPiece(chunk.subarray(from, at));
        // A line that is too long is not processed.
        budget.spend(ends === undefined ? heldBytes : 0);
        finishHeld();
      }
      from = at + 1;
      if (mustWait()) return from < chunk.length ? chunk.subarray(from) : undefined;
    }
    return undefined;
  }

  function processWaiting(): void {
    if (isWorking) return;
    isWorking = true;
    try {
      while (!mustWait()) {
        const chunk = waiting.shift();
        if (chunk === undefined) break;
        const rest = splitChunk(chunk);
        if (rest !== undefined) waiting.unshift(rest);
      }
      if (over === 'ended' && !isPaused && heldBytes > 0) finishHeld();
      if ((over === 'ended' || over === 'closed') && !isPaused) {
        over = 'reported';
        options.onEnd?.();
      }
    } finally {
      isWorking = false;
    }
  }

  function continueReading(): void {
    processWaiting();
    if (!mustWait() && over === 'no') stream.resume();
  }

  stream.on('data', (chunk: Buffer) => {
    waiting.push(chunk);
    // Node resumes the streams of a child when it exits, paused or not.
    if (mustWait()) stream.pause();
    else processWaiting();
  });
  stream.on('end', () => {
    if (over === 'no') over = 'ended';
    processWaiting();
  });
  stream.on('close', () => {
    if (over === 'no') over = 'closed';
    processWaiting();
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

/** Share of one sender before the event loop serves others. */
export const linesPerTurn = 64;
const bytesPerTurn = 256 * 1024;

/** The share of one sender in a turn of the event loop. */
interface TurnBudget {
  /** Counts one more line as processed. */
  spend(bytes: number): void;
  /** True from the moment the share is used up until `continueReading` is called. */
  isSpent(): boolean;
}

/** Grants one sender its share, and calls `continueReading` in the next turn. */
export function createTurnBudget(continueReading: () => void): TurnBudget {
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
    isSpent: () => isSpent,
  };
}
