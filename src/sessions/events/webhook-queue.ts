import { randomBytes } from 'node:crypto';
import { appendFileSync, readdirSync, readFileSync, renameSync, rmSync, statSync, utimesSync } from 'node:fs';
import { join } from 'node:path';
import { makePrivateFolder } from '../../lib/fs/private-files.ts';
import { writeAtomically } from '../../lib/fs/write-atomically.ts';
import type { Log } from '../../observability/log/log.ts';
import type { LifecycleStep } from './lifecycle.ts';

/** An event that a webhook is still to be told of. */
export interface QueuedEvent {
  readonly id: string;
  readonly step: LifecycleStep;
}

/** What waits, written down, so that whoever comes after this process goes on with it. */
export interface WebhookQueue {
  add(event: QueuedEvent): void;
  remove(id: string): void;
  /** What processes have left that are gone, once. */
  takeAbandoned(): QueuedEvent[];
  close(): void;
}

export interface WebhookQueueOptions {
  /** How long a process may say nothing before it counts as gone. */
  readonly silenceMs?: number;
}

const suffix = '.jsonl';
/** Beside what waits stands what was done since; written anew before that is the larger part. */
const maxLines = 4096;

/** One file for each process, which touches it while it lives; one that nobody touches is anybody's. */
export function openWebhookQueue(
  folder: string,
  log: Pick<Log, 'warn'>,
  { silenceMs = 10_000 }: WebhookQueueOptions = {},
): WebhookQueue {
  makePrivateFolder(folder);
  const own = join(folder, `${randomBytes(8).toString('hex')}${suffix}`);
  const waiting = new Map<string, QueuedEvent>();
  let lines = 0;
  let failed = false;
  const touchTimer = setInterval(() => tryWrite(touchFile), silenceMs / 5).unref();

  /** Nobody else shall feel it when a disk is full: the events are still in memory. */
  function tryWrite(work: () => void): void {
    try {
      work();
      failed = false;
    } catch (error) {
      if (!failed) log.warn('events for a webhook cannot be kept', { error: (error as Error).message });
      failed = true;
    }
  }

  function appendLine(line: object): void {
    if (++lines > maxLines) rewriteFile();
    else appendFileSync(own, `${JSON.stringify(line)}\n`, { mode: 0o600 });
  }

  function rewriteFile(): void {
    lines = waiting.size;
    if (lines === 0) rmSync(own, { force: true });
    else writeAtomically(own, [...waiting.values()].map((event) => `${JSON.stringify(event)}\n`).join(''));
  }

  function touchFile(): void {
    if (waiting.size === 0) return;
    const now = new Date();
    try {
      utimesSync(own, now, now);
    } catch {
      // Taken for gone while we stood still: then some are told twice, and none is lost.
      rewriteFile();
    }
  }

  function addEvent(event: QueuedEvent): void {
    waiting.set(event.id, event);
    tryWrite(() => appendLine(event));
  }

  return {
    add: addEvent,

    remove(id) {
      if (waiting.delete(id)) tryWrite(() => (waiting.size === 0 ? rewriteFile() : appendLine({ done: id })));
    },

    takeAbandoned() {
      const found: QueuedEvent[] = [];
      tryWrite(() => {
        for (const name of readdirSync(folder).filter((each) => each.endsWith(suffix))) {
          const file = join(folder, name);
          if (file === own || !isAbandoned(file, silenceMs)) continue;
          const taken = join(folder, `${randomBytes(8).toString('hex')}${suffix}`);
          // Of several who want it, one moves it.
          if (!moveFile(file, taken)) continue;
          for (const event of parseEvents(readFileSync(taken, 'utf8'))) {
            found.push(event);
            addEvent(event);
          }
          rmSync(taken, { force: true });
        }
      });
      return found;
    },

    close() {
      clearInterval(touchTimer);
      // Whoever starts next need not wait until it is sure that we are gone.
      if (waiting.size > 0) tryWrite(() => utimesSync(own, 0, 0));
    },
  };
}

function isAbandoned(file: string, silenceMs: number): boolean {
  try {
    return Date.now() - statSync(file).mtimeMs >= silenceMs;
  } catch {
    return false;
  }
}

/** Touched first, so that nobody takes it from us in turn. */
function moveFile(from: string, to: string): boolean {
  try {
    const now = new Date();
    utimesSync(from, now, now);
    renameSync(from, to);
    return true;
  } catch {
    return false;
  }
}

function parseEvents(text: string): QueuedEvent[] {
  const events = new Map<string, QueuedEvent>();
  for (const line of text.split('\n')) {
    const read = parseLine(line);
    if (read?.done !== undefined) events.delete(read.done);
    else if (read?.id !== undefined && read.step !== undefined) events.set(read.id, { id: read.id, step: read.step });
  }
  return [...events.values()];
}

function parseLine(line: string): { id?: string; step?: LifecycleStep; done?: string } | undefined {
  try {
    return line === '' ? undefined : JSON.parse(line);
  } catch {
    // Cut off by a crash: it was not kept.
    return undefined;
  }
}
