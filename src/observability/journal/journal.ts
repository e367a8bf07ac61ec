import { createReaderTurns, type Reader } from '../../lib/async/reader-turns.ts';
import type { Log } from '../log/log.ts';
import { scrubSecrets } from '../log/scrub.ts';
import { createAppender, type JournalLoss } from './appender.ts';
import { type JournalOptions, openJournalFile } from './journal-files.ts';
import {
  type CallsPage,
  type EntriesPage,
  type EntryFilter,
  type PageQuery,
  readCalls,
  searchEntries,
} from './read-entries.ts';
import type { Statistics, StatisticsQuery } from './statistics/statistics.ts';
import { createStatisticsThread } from './statistics/statistics-thread.ts';

export interface CallEntry {
  readonly id: string;
  readonly sessionId: string | undefined;
  readonly userId: string | undefined;
  /** The API key of the request; keys of one user may share a session. */
  readonly keyId?: string | undefined;
  readonly entrance: string;
  readonly era: string;
  readonly server: string;
  readonly method: string;
  readonly name: string | undefined;
  readonly outcome: string;
  readonly rule: string | undefined;
  /** The claims about the session that the rule is based on, as JSON text. */
  readonly claims?: string | undefined;
  /** The digest of the arguments of a tool call, as in the signed context. */
  readonly argsSha256?: string | undefined;
  /** The workspace, if the client chose it. */
  readonly workspaceId?: string | undefined;
  /** The workspace that the client announced in vain. */
  readonly ignoredWorkspace?: string | undefined;
  /** The trace of the client, and our span in it. */
  readonly traceId?: string | undefined;
  readonly spanId?: string | undefined;
  /** The process that served it. */
  readonly pid?: number | undefined;
  /** The exchange whose cached result was returned. */
  readonly cached?: string | undefined;
  readonly ms: number;
  /** The time until the server answered. */
  readonly upstreamMs?: number | undefined;
  readonly bytesIn: number;
  readonly bytesOut: number;
}

interface TimedCall {
  readonly at: number;
  readonly call: CallEntry;
}

export const entryKinds = ['call', 'push', 'process', 'egress', 'file', 'session', 'gateway', 'refusal'] as const;

/** One line of the journal: the event, its time and its session. Full ids, never tokens, never arguments. */
export interface JournalEntry {
  readonly kind: (typeof entryKinds)[number];
  [field: string]: string | number | boolean | undefined;
}

interface ReaderQuery extends PageQuery, Reader {}

/** The reader of numbers. */
interface StatisticsReader extends Reader {
  /** Aborted when nobody waits for the numbers any more. Then they are not complete. */
  readonly signal?: AbortSignal | undefined;
}

/** A query, or a function that finds it out when it is the turn of the reader. */
type InTurn<Query> = Query | (() => Promise<Query>);

export interface Journal {
  record(entry: JournalEntry): void;
  recordCall(call: CallEntry): void;
  /** Reads the recorded calls of a session, newest first. */
  calls(sessionId: string, wanted: ReaderQuery): Promise<CallsPage>;
  /** Reads the entries that match the filter, newest first, also those of other processes. */
  search(filter: InTurn<EntryFilter>, wanted: ReaderQuery): Promise<EntriesPage>;
  /** Counts the entries of a time range, also those of other processes. */
  statistics(query: InTurn<StatisticsQuery>, asked?: StatisticsReader): Promise<Statistics>;
  /** Resolves when everything recorded so far is in the file. */
  close(): Promise<void>;
}

const flushEveryMs = 20;
const maxBacklog = 8 << 20;
const maxWaitingCalls = 1000;
const maxEntryLength = 8192;
const maxTextLength = 2048;
const checkAgeMs = 3_600_000;

/** Opens a file of JSON lines. Lines are collected for some milliseconds, and so written in large chunks. */
export function openJournal(file: string, log: Pick<Log, 'warn'>, options: JournalOptions = {}): Journal {
  const current = openJournalFile(file, log, deleteOld, options);
  const appender = createAppender(current, log, (loss) => formatLoss(loss, timestamp()));
  const statistics = createStatisticsThread(file);
  // Calls wait while a page is read. Statistics are read by a thread, which pages shall not wait for.
  const runSearch = createReaderTurns('Too many searches of the journal wait.');
  const runCount = createReaderTurns('Too many requests for statistics wait.');
  let lines = '';
  /** Calls whose lines are not formatted yet. */
  let waiting: TimedCall[] = [];
  let timer: NodeJS.Timeout | undefined;
  let writing: Promise<void> | undefined;
  let closed = false;
  let stampedAt = 0;
  let stamp = '';

  /** Caches the text of the time: at full speed several entries share a millisecond. */
  function timestamp(now = Date.now()): string {
    if (now !== stampedAt) {
      stampedAt = now;
      stamp = new Date(now).toISOString();
    }
    return stamp;
  }

  /** Formats the waiting calls one after the other. Between two requests each one would take several times as long. */
  function formatCalls(): void {
    const calls = waiting;
    waiting = [];
    for (const { at, call } of calls) append(at, formatCallEntry(call));
  }

  function flush(): Promise<void> {
    timer = undefined;
    if (writing !== undefined) return writing.then(flush);
    formatCalls();
    if (lines === '') return Promise.resolve();
    const batch = lines;
    lines = '';
    writing = appender.append(batch).finally(() => {
      writing = undefined;
    });
    return writing;
  }

  /** Appends an entry; `rest` is its JSON without the opening brace. */
  function append(at: number, rest: string): void {
    lines += `{"time":"${timestamp(at)}",${rest}\n`;
    // A slow disk slows the gateway down instead of losing entries or filling the memory.
    if (lines.length > maxBacklog) {
      appender.appendNow(lines);
      lines = '';
    }
  }

  function flushSoon(): void {
    timer ??= setTimeout(() => void flush(), flushEveryMs).unref();
  }

  function appendEntry(entry: JournalEntry): void {
    let text = JSON.stringify(entry, scrubField);
    if (text.length > maxEntryLength) text = JSON.stringify(entry, shortenField);
    // The lines have the order of the events.
    formatCalls();
    append(Date.now(), text.slice(1));
    flushSoon();
  }

  /** Deletes what is older or larger than the limits allow. That is recorded, also while the journal closes. */
  function deleteOld(): void {
    const deleted = current.deleteOld();
    if (deleted !== undefined) appendEntry({ kind: 'gateway', event: 'journal-deleted', ...deleted });
  }

  deleteOld();
  // Without new lines no file is closed, but old ones still reach their age.
  const ageTimer = setInterval(deleteOld, checkAgeMs).unref();

  /** The newest entries are asked for most. */
  async function flushForReader(): Promise<void> {
    if (!closed) await flush();
  }

  return {
    record(entry) {
      if (!closed) appendEntry(entry);
    },
    recordCall(call) {
      if (closed) return;
      waiting.push({ at: Date.now(), call });
      // An entry holds whole texts until it is formatted. Only short ones may wait for a slow disk.
      if (waiting.length === maxWaitingCalls || hasLongText(call)) formatCalls();
      flushSoon();
    },
    calls: (sessionId, wanted) =>
      runSearch(wanted, async () => {
        await flushForReader();
        return readCalls(file, sessionId, wanted);
      }),
    search: (filter, wanted) =>
      runSearch(wanted, async () => {
        // For a reader that has left, nothing is looked up.
        const isLookedUp = typeof filter === 'function';
        if (isLookedUp && wanted.signal?.aborted === true) return { entries: [], next: null, unreadable: 0 };
        const found = isLookedUp ? await filter() : filter;
        await flushForReader();
        return searchEntries(file, found, wanted);
      }),
    statistics: (query, asked = {}) =>
      runCount(asked, async () => {
        const found = typeof query === 'function' ? await query() : query;
        await flushForReader();
        return statistics.read(found, asked.signal);
      }),
    async close() {
      if (closed) return;
      closed = true;
      await statistics.close();
      clearTimeout(timer);
      clearInterval(ageTimer);
      await flush();
      // Losses are reported even if no entry follows.
      await appender.append('');
      // Closing a file may add a line.
      while (lines !== '') await flush();
      current.close();
    },
  };
}

/** Scrubs a field. Ids stay whole; any other text may come from outside and contain a credential. */
function scrubField(key: string, value: unknown): unknown {
  return typeof value !== 'string' || key.endsWith('Id') ? value : scrubSecrets(value);
}

/** Scrubs and shortens a field. Names and methods come from outside: nobody may fill the disk with them. */
function shortenField(key: string, value: unknown): unknown {
  const clean = scrubField(key, value);
  return typeof clean === 'string' && clean.length > maxTextLength ? `${clean.slice(0, maxTextLength)}…` : clean;
}

/** Formats the entry that stands for the lost ones before it. */
function formatLoss({ entries, since, error }: JournalLoss, time: string): string {
  return `${JSON.stringify({ time, kind: 'gateway', event: 'entries-lost', entries, since, error })}\n`;
}

/** Formats the entry of a call. There is one for every exchange, and this takes half the time of JSON.stringify. */
export function formatCallEntry(call: CallEntry): string {
  return (
    `"kind":"call","id":"${call.id}"${formatMember('sessionId', call.sessionId)}${formatMember('userId', call.userId)}` +
    `${formatMember('keyId', call.keyId)},"entrance":"${call.entrance}","era":"${call.era}","server":${quoteId(call.server)},"method":${quoteScrubbed(call.method)}` +
    `${call.name === undefined ? '' : `,"name":${quoteScrubbed(call.name)}`},"outcome":${quoteId(call.outcome)}${formatMember('rule', call.rule)}` +
    `${formatMember('claims', call.claims)}${call.argsSha256 === undefined ? '' : `,"argsSha256":"${call.argsSha256}"`}` +
    `${formatMember('workspaceId', call.workspaceId)}${call.ignoredWorkspace === undefined ? '' : `,"ignoredWorkspace":${quoteScrubbed(call.ignoredWorkspace)}`}` +
    `${formatMember('cached', call.cached)}${formatMember('traceId', call.traceId)}${formatMember('spanId', call.spanId)}${call.pid === undefined ? '' : `,"pid":${call.pid}`}` +
    `,"ms":${call.ms}${call.upstreamMs === undefined ? '' : `,"upstreamMs":${call.upstreamMs}`},"bytesIn":${call.bytesIn},"bytesOut":${call.bytesOut}}`
  );
}

/** Tells whether a text that a client chose is longer than it is recorded. */
function hasLongText({ method, name = '', ignoredWorkspace = '' }: CallEntry): boolean {
  return method.length + name.length + ignoredWorkspace.length > maxTextLength;
}

function formatMember(name: string, value: string | undefined): string {
  return value === undefined ? '' : `,"${name}":${quoteId(value)}`;
}

const maxCachedTexts = 1000;
const maxCachedLength = 128;
const quotedIds = new Map<string, string>();
const scrubbedTexts = new Map<string, string>();

/** Quotes ids and configured names as they are. */
function quoteId(text: string): string {
  return getOrCreateQuoted(quotedIds, text, quoteText);
}

/** Quotes names and addresses, which come from agents and may contain anything. */
function quoteScrubbed(text: string): string {
  return getOrCreateQuoted(scrubbedTexts, text, (each) => quoteText(scrubSecrets(each)));
}

/** Caches quoted texts, since the same few occur over and over. */
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

function quoteText(text: string): string {
  return JSON.stringify(text.length > maxTextLength ? `${text.slice(0, maxTextLength)}…` : text);
}
