import { closeSync, openSync } from 'node:fs';
import { dirname } from 'node:path';
import { keepPrivate, makePrivateFolder } from '../../lib/fs/private-files.ts';
import type { Log } from '../log/log.ts';
import { scrub } from '../log/scrub.ts';
import { createAppender, type JournalLoss } from './appender.ts';
import { type CallsPage, type CallsQuery, readCalls } from './read-calls.ts';

/** What the journal says of one exchange. */
export interface CallEntry {
  readonly id: string;
  readonly sessionId: string | undefined;
  readonly userId: string | undefined;
  /** The API key it came with; keys of one user may share a session. */
  readonly keyId?: string | undefined;
  readonly entrance: string;
  readonly era: string;
  readonly server: string;
  readonly method: string;
  readonly name: string | undefined;
  readonly outcome: string;
  readonly rule: string | undefined;
  /** Where it stood, when its client chose. */
  readonly workspaceId?: string | undefined;
  /** What its client announced in vain. */
  readonly ignoredWorkspace?: string | undefined;
  /** The trace that its client is part of, and our span in it. */
  readonly traceId?: string | undefined;
  readonly spanId?: string | undefined;
  /** The process that served it. */
  readonly pid?: number | undefined;
  /** The exchange whose result was given again. */
  readonly cached?: string | undefined;
  readonly ms: number;
  readonly bytesIn: number;
  readonly bytesOut: number;
}

const maxCachedTexts = 1000;

const maxCachedLength = 128;

const quotedIds = new Map<string, string>();

const scrubbedTexts = new Map<string, string>();

/** One line of the journal: what happened, when, for which session. Full ids, never tokens, never arguments. */
export interface Entry {
  readonly kind: 'call' | 'push' | 'process' | 'egress' | 'file' | 'session' | 'gateway' | 'refusal';
  [field: string]: string | number | boolean | undefined;
}

export interface Journal {
  record(entry: Entry): void;
  recordCall(call: CallEntry): void;
  /** The calls of a session that were recorded here, the newest first. */
  calls(sessionId: string, wanted: CallsQuery): Promise<CallsPage>;
  /** Resolves when everything recorded so far has reached the file. */
  close(): Promise<void>;
}

const flushEveryMs = 20;
const maxBacklog = 8 << 20;
const maxEntryLength = 8192;
const maxTextLength = 2048;

/** Appends JSON lines to one file, gathered for a few milliseconds so that a busy gateway writes in large pieces. */
export function openJournal(file: string, log: Pick<Log, 'warn'>): Journal {
  makePrivateFolder(dirname(file));
  keepPrivate(file);
  const descriptor = openSync(file, 'a+', 0o600);
  const appender = createAppender(descriptor, log, (loss) => formatLoss(loss, timestamp()));
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
    if (lines.length > maxBacklog) {
      appender.appendNow(lines);
      lines = '';
    }
    timer ??= setTimeout(() => void flush(), flushEveryMs).unref();
  }

  return {
    record(entry) {
      if (closed) return;
      let text = JSON.stringify(entry, scrubField);
      if (text.length > maxEntryLength) text = JSON.stringify(entry, shortenField);
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
function scrubField(key: string, value: unknown): unknown {
  return typeof value !== 'string' || key.endsWith('Id') ? value : scrub(value);
}

/** Names and methods come from outside and may be as long as a message: nobody shall fill the disk with them. */
function shortenField(key: string, value: unknown): unknown {
  const clean = scrubField(key, value);
  return typeof clean === 'string' && clean.length > maxTextLength ? `${clean.slice(0, maxTextLength)}…` : clean;
}

/** The one entry that stands for those that are missing before it. */
function formatLoss({ entries, since, error }: JournalLoss, time: string): string {
  const entry: Entry & { time: string } = { time, kind: 'gateway', event: 'entries-lost', entries, since, error };
  return `${JSON.stringify(entry)}\n`;
}

/** There is one for every exchange: printed piece by piece it takes half the time that JSON.stringify does. */
export function callLine(call: CallEntry): string {
  return (
    `"kind":"call","id":"${call.id}"${formatMember('sessionId', call.sessionId)}${formatMember('userId', call.userId)}` +
    `${formatMember('keyId', call.keyId)},"entrance":"${call.entrance}","era":"${call.era}","server":${quoteId(call.server)},"method":${quoteScrubbed(call.method)}` +
    `${call.name === undefined ? '' : `,"name":${quoteScrubbed(call.name)}`},"outcome":${quoteId(call.outcome)}${formatMember('rule', call.rule)}` +
    `${formatMember('workspaceId', call.workspaceId)}${call.ignoredWorkspace === undefined ? '' : `,"ignoredWorkspace":${quoteScrubbed(call.ignoredWorkspace)}`}` +
    `${formatMember('cached', call.cached)}${formatMember('traceId', call.traceId)}${formatMember('spanId', call.spanId)}${call.pid === undefined ? '' : `,"pid":${call.pid}`}` +
    `,"ms":${call.ms},"bytesIn":${call.bytesIn},"bytesOut":${call.bytesOut}}`
  );
}

function formatMember(name: string, value: string | undefined): string {
  return value === undefined ? '' : `,"${name}":${quoteId(value)}`;
}

/** Ids and what is configured: as they are. */
function quoteId(text: string): string {
  return getOrCreateQuoted(quotedIds, text, quote);
}

/** Names and addresses come from agents, who may put anything into them. */
function quoteScrubbed(text: string): string {
  return getOrCreateQuoted(scrubbedTexts, text, (each) => quote(scrub(each)));
}

/** The same few words are quoted over and over. */
function getOrCreateQuoted(known: Map<string, string>, text: string, make: (text: string) => string): string {
  const before = known.get(text);
  if (before !== undefined) return before;
  const fresh = make(text);
  if (text.length <= maxCachedLength) {
    if (known.size >= maxCachedTexts) known.clear();
    known.set(text, fresh);
  }
  return fresh;
}

function quote(text: string): string {
  return JSON.stringify(text.length > maxTextLength ? `${text.slice(0, maxTextLength)}…` : text);
}
