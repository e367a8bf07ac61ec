import { randomBytes } from 'node:crypto';
import { appendFileSync, readdirSync, readFileSync, renameSync, rmSync, statSync, utimesSync } from 'node:fs';
import { join } from 'node:path';
import { makePrivateFolder } from '../../lib/fs/private-files.ts';
import { writeAtomically } from '../../lib/fs/write-atomically.ts';
import type { Log } from '../../observability/log/log.ts';
import type { Step } from './lifecycle.ts';

/** An event that a webhook is still to be told of. */
export interface WaitingEvent {
  readonly id: string;
  readonly step: Step;
}

/** What waits, written down, so that whoever comes after this process goes on with it. */
export interface WaitingEvents {
  keep(event: WaitingEvent): void;
  done(id: string): void;
  /** What processes have left that are gone, once. */
  adopt(): WaitingEvent[];
  close(): void;
}

export interface WaitingOptions {
  /** How long a process may say nothing before it counts as gone. */
  readonly silenceMs?: number;
}

const suffix = '.jsonl';
/** Beside what waits stands what was done since; written anew before that is the larger part. */
const mostLines = 4096;

/** One file for each process, which touches it while it lives; one that nobody touches is anybody's. */
export function openWaitingEvents(
  folder: string,
  log: Pick<Log, 'warn'>,
  { silenceMs = 10_000 }: WaitingOptions = {},
): WaitingEvents {
  makePrivateFolder(folder);
  const own = join(folder, `${randomBytes(8).toString('hex')}${suffix}`);
  const waiting = new Map<string, WaitingEvent>();
  let lines = 0;
  let failed = false;
  const touching = setInterval(() => attempt(touch), silenceMs / 5).unref();

  /** Nobody else shall feel it when a disk is full: the events are still in memory. */
  function attempt(work: () => void): void {
    try {
      work();
      failed = false;
    } catch (error) {
      if (!failed) log.warn('events for a webhook cannot be kept', { error: (error as Error).message });
      failed = true;
    }
  }

  function write(line: object): void {
    if (++lines > mostLines) rewrite();
    else appendFileSync(own, `${JSON.stringify(line)}\n`, { mode: 0o600 });
  }

  function rewrite(): void {
    lines = waiting.size;
    if (lines === 0) rmSync(own, { force: true });
    else writeAtomically(own, [...waiting.values()].map((event) => `${JSON.stringify(event)}\n`).join(''));
  }

  function touch(): void {
    if (waiting.size === 0) return;
    const now = new Date();
    try {
      utimesSync(own, now, now);
    } catch {
      // Taken for gone while we stood still: then some are told twice, and none is lost.
      rewrite();
    }
  }

  function keep(event: WaitingEvent): void {
    waiting.set(event.id, event);
    attempt(() => write(event));
  }

  return {
    keep,

    done(id) {
      if (waiting.delete(id)) attempt(() => (waiting.size === 0 ? rewrite() : write({ done: id })));
    },

    adopt() {
      const found: WaitingEvent[] = [];
      attempt(() => {
        for (const name of readdirSync(folder).filter((each) => each.endsWith(suffix))) {
          const file = join(folder, name);
          if (file === own || !isSilent(file, silenceMs)) continue;
          const taken = join(folder, `${randomBytes(8).toString('hex')}${suffix}`);
          // Of several who want it, one moves it.
          if (!moved(file, taken)) continue;
          for (const event of eventsIn(readFileSync(taken, 'utf8'))) {
            found.push(event);
            keep(event);
          }
          rmSync(taken, { force: true });
        }
      });
      return found;
    },

    close() {
      clearInterval(touching);
      // Whoever starts next need not wait until it is sure that we are gone.
      if (waiting.size > 0) attempt(() => utimesSync(own, 0, 0));
    },
  };
}

function isSilent(file: string, silenceMs: number): boolean {
  try {
    return Date.now() - statSync(file).mtimeMs >= silenceMs;
  } catch {
    return false;
  }
}

/** Touched first, so that nobody takes it from us in turn. */
function moved(from: string, to: string): boolean {
  try {
    const now = new Date();
    utimesSync(from, now, now);
    renameSync(from, to);
    return true;
  } catch {
    return false;
  }
}

function eventsIn(text: string): WaitingEvent[] {
  const events = new Map<string, WaitingEvent>();
  for (const line of text.split('\n')) {
    const read = readLine(line);
    if (read?.done !== undefined) events.delete(read.done);
    else if (read?.id !== undefined && read.step !== undefined) events.set(read.id, { id: read.id, step: read.step });
  }
  return [...events.values()];
}

function readLine(line: string): { id?: string; step?: Step; done?: string } | undefined {
  try {
    return line === '' ? undefined : JSON.parse(line);
  } catch {
    // Cut off by a crash: it was not kept.
    return undefined;
  }
}
