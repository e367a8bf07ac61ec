import { closeSync, openSync } from 'node:fs';
import { dirname } from 'node:path';
import { keepPrivate, makePrivateFolder } from '../../lib/fs/private-files.ts';
import type { Log } from '../log/log.ts';
import { scrub } from '../log/scrub.ts';
import { createAppender, type Loss } from './append-lines.ts';
import { type CallEntry, callLine } from './call-line.ts';
import { type CallsPage, type CallsWanted, readCalls } from './read-calls.ts';

/** One line of the journal: what happened, when, for which session. Full ids, never tokens, never arguments. */
export interface Entry {
  readonly kind: 'call' | 'push' | 'process' | 'egress' | 'file' | 'session' | 'gateway' | 'refusal';
  [field: string]: string | number | boolean | undefined;
}

export interface Journal {
  record(entry: Entry): void;
  recordCall(call: CallEntry): void;
  /** The calls of a session that were recorded here, the newest first. */
  calls(sessionId: string, wanted: CallsWanted): Promise<CallsPage>;
  /** Resolves when everything recorded so far has reached the file. */
  close(): Promise<void>;
}

const flushEveryMs = 20;
const backlogLimit = 8 << 20;
const longEntry = 8192;
const longText = 2048;

/** Appends JSON lines to one file, gathered for a few milliseconds so that a busy gateway writes in large pieces. */
export function openJournal(file: string, log: Pick<Log, 'warn'>): Journal {
  makePrivateFolder(dirname(file));
  keepPrivate(file);
  const descriptor = openSync(file, 'a+', 0o600);
  const appender = createAppender(descriptor, log, (loss) => lossLine(loss, timestamp()));
  let lines = '';
  let timer: NodeJS.Timeout | undefined;
  let writing: Promise<void> | undefined;
  let closed = false;
  let stampedAt = 0;
  let stamp = '';

  /** At full speed several entries share a millisecond. */
  function timestamp(): string {
    const now = Date.now();
    if (now !== stampedAt) {
      stampedAt = now;
      stamp = new Date(now).toISOString();
    }
    return stamp;
  }

  function flush(): Promise<void> {
    timer = undefined;
    if (writing !== undefined) return writing.then(flush);
    if (lines === '') return Promise.resolve();
    const batch = lines;
    lines = '';
    writing = appender.append(batch).finally(() => {
      writing = undefined;
    });
    return writing;
  }

  /** `rest` is the entry without its opening brace. */
  function append(rest: string): void {
    lines += `{"time":"${timestamp()}",${rest}\n`;
    // A disk that cannot keep up slows us down rather than losing entries or filling the memory.
    if (lines.length > backlogLimit) {
      appender.appendNow(lines);
      lines = '';
    }
    timer ??= setTimeout(() => void flush(), flushEveryMs).unref();
  }

  return {
    record(entry) {
      if (closed) return;
      let text = JSON.stringify(entry, scrubbed);
      if (text.length > longEntry) text = JSON.stringify(entry, shortened);
      append(text.slice(1));
    },
    recordCall(call) {
      if (!closed) append(callLine(call));
    },
    async calls(sessionId, wanted) {
      // What was said a moment ago is what is asked for most.
      if (!closed) await flush();
      return readCalls(file, sessionId, wanted);
    },
    async close() {
      if (closed) return;
      closed = true;
      clearTimeout(timer);
      await flush();
      await flush();
      // What was lost is said even if nothing came after it.
      await appender.append('');
      closeSync(descriptor);
    },
  };
}

/** Ids stay whole; every other text may come from outside, with a credential in it. */
function scrubbed(key: string, value: unknown): unknown {
  return typeof value !== 'string' || key.endsWith('Id') ? value : scrub(value);
}

/** Names and methods come from outside and may be as long as a message: nobody shall fill the disk with them. */
function shortened(key: string, value: unknown): unknown {
  const clean = scrubbed(key, value);
  return typeof clean === 'string' && clean.length > longText ? `${clean.slice(0, longText)}…` : clean;
}

/** The one entry that stands for those that are missing before it. */
function lossLine({ entries, since, error }: Loss, time: string): string {
  const entry: Entry & { time: string } = { time, kind: 'gateway', event: 'entries-lost', entries, since, error };
  return `${JSON.stringify(entry)}\n`;
}
