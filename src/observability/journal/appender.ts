import { fstatSync, readSync, write, writeSync } from 'node:fs';
import type { Log } from '../log/log.ts';
import type { JournalFile } from './journal-files.ts';

/** Journal entries that could not be written. */
export interface JournalLoss {
  readonly entries: number;
  readonly since: string;
  /** The system's code of the last error. */
  readonly error: string;
}

interface Appender {
  /**
   * Appends lines, to a new file if the current one is full. Never fails: lost entries are counted, and reported as soon
   * as writing works again. Must not be called again before it resolves.
   */
  append(lines: string): Promise<void>;
  /** Does the same synchronously. */
  appendNow(lines: string): void;
}

interface Batch {
  readonly bytes: Buffer;
  /** Number of bytes before the lines: the end of a torn line, and the report of losses. */
  readonly headBytes: number;
  readonly wasTorn: boolean;
  readonly loss: JournalLoss | undefined;
}

const newLine = 10;

/** Appends whole lines to the journal. A torn line, also of another process, is ended first. */
export function createAppender(
  file: Pick<JournalFile, 'descriptor' | 'advance'>,
  log: Pick<Log, 'warn'>,
  describeLoss: (loss: JournalLoss) => string,
): Appender {
  let isTorn = hasTornEnd(file.descriptor());
  let loss: JournalLoss | undefined;
  let isFailing = false;

  function prepare(lines: string): Batch {
    const head = `${isTorn ? '\n' : ''}${loss === undefined ? '' : describeLoss(loss)}`;
    const bytes = Buffer.from(head + lines);
    const batch = { bytes, headBytes: Buffer.byteLength(head), wasTorn: isTorn, loss };
    isTorn = false;
    loss = undefined;
    return batch;
  }

  function noteSuccess({ loss: reported }: Batch): void {
    if (!isFailing) return;
    isFailing = false;
    log.warn('journal writable again', { lost: reported?.entries ?? 0 });
  }

  function noteFailure({ bytes, headBytes, wasTorn, loss: unreported }: Batch, written: number, error: Error): void {
    const earlier = written < headBytes ? unreported : undefined;
    const entries = countLines(bytes.subarray(Math.max(written, headBytes)));
    loss = {
      entries: (loss?.entries ?? 0) + (earlier?.entries ?? 0) + entries,
      since: earlier?.since ?? loss?.since ?? new Date().toISOString(),
      error: (error as NodeJS.ErrnoException).code ?? 'unknown',
    };
    isTorn ||= written === 0 ? wasTorn : bytes[written - 1] !== newLine;
    // Logged once: a full disk must not fill the log as well.
    if (!isFailing) log.warn('journal cannot be written', { error: error.message });
    isFailing = true;
  }

  return {
    append(lines) {
      if (lines === '' && loss === undefined) return Promise.resolve();
      if (file.advance()) isTorn = hasTornEnd(file.descriptor());
      const batch = prepare(lines);
      const { bytes } = batch;
      const descriptor = file.descriptor();
      return new Promise((resolve) => {
        const from = (at: number): void => {
          if (at === bytes.length) {
            noteSuccess(batch);
            resolve();
            return;
          }
          write(descriptor, bytes, at, bytes.length - at, null, (error, written) => {
            if (error === null) return from(at + written);
            noteFailure(batch, at, error);
            resolve();
          });
        };
        from(0);
      });
    },
    appendNow(lines) {
      const batch = prepare(lines);
      let at = 0;
      try {
        // The file stays the same: `append` may be writing to it.
        while (at < batch.bytes.length) at += writeSync(file.descriptor(), batch.bytes, at);
        noteSuccess(batch);
      } catch (error) {
        noteFailure(batch, at, error as Error);
      }
    },
  };
}

function hasTornEnd(descriptor: number): boolean {
  try {
    const { size } = fstatSync(descriptor);
    const last = Buffer.alloc(1);
    return size > 0 && readSync(descriptor, last, 0, 1, size - 1) === 1 && last[0] !== newLine;
  } catch {
    // Readers skip an empty line.
    return true;
  }
}

function countLines(bytes: Buffer): number {
  let count = 0;
  for (let at = bytes.indexOf(newLine); at !== -1; at = bytes.indexOf(newLine, at + 1)) count += 1;
  return count;
}
