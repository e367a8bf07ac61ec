import { randomBytes } from 'node:crypto';
import { appendFileSync, readdirSync, readFileSync, renameSync, rmSync, statSync, utimesSync } from 'node:fs';
import { join } from 'node:path';
import { makePrivateFolder } from '../../lib/fs/private-files.ts';
import { writeAtomically } from '../../lib/fs/write-atomically.ts';
import type { Log } from '../../observability/log/log.ts';
import type { LifecycleStep } from './lifecycle.ts';

export interface QueuedEvent {
  readonly id: string;
  readonly step: LifecycleStep;
}

/** Events that wait to be sent, in files, so that another process goes on with them after a crash. */
export interface WebhookQueue {
  add(event: QueuedEvent): void;
  remove(id: string): void;
  /** Takes the events of processes that are gone. Each is taken by one process. */
  takeAbandoned(): QueuedEvent[];
  close(): void;
}

const suffix = '.jsonl';
/** The file also holds a line for each sent event; it is rewritten before they prevail. */
const maxLines = 4096;

/** Each process has one file and touches it while it lives. Any process may take a file untouched for `silenceMs`. */
export function openWebhookQueue(folder: string, log: Pick<Log, 'warn'>, { silenceMs = 10_000 } = {}): WebhookQueue {
  makePrivateFolder(folder);
  const own = join(folder, `${randomBytes(8).toString('hex')}${suffix}`);
  const waiting = new Map<string, QueuedEvent>();
  let lines = 0;
  let failed = false;
  const touchTimer = setInterval(() => tryWrite(touchFile), silenceMs / 5).unref();

  /** Logs a failure once and goes on: the events are still in memory. */
  function tryWrite(work: () => void): void {
    try {
      work();
      failed = false;
    } catch (error) {
      if (!failed) log.warn('webhook events cannot be stored', { error: (error as Error).message });
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
      // Another process took the file while this one stood still. Some events are sent twice, and none is lost.
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
          // Of several processes, one succeeds in moving it.
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
      // The next process may take the file at once.
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

/** Touches the file before moving it, so that no other process takes it meanwhile. */
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
    // The line was cut off by a crash.
    return undefined;
  }
}
