import type { FileHandle } from 'node:fs/promises';
import type { CallEntry } from './journal.ts';
import { openNewestFirst, readLineTime } from './journal-files.ts';

/** An entry of the journal, as it was read from a file. */
export interface RecordedEntry {
  readonly time: string;
  readonly kind: string;
  readonly [field: string]: unknown;
}

/** Conditions on entries. All that are given must hold. */
export interface EntryFilter {
  /** The correlation id of a call, or its beginning. */
  readonly id?: string | undefined;
  /** The id of a session, or its beginning. */
  readonly session?: string | undefined;
  /** The ids of several sessions. An entry of any of them matches. */
  readonly sessionIds?: readonly string[] | undefined;
  readonly user?: string | undefined;
  readonly server?: string | undefined;
  /** The name of a tool, with or without its server. */
  readonly tool?: string | undefined;
  readonly kind?: string | undefined;
  readonly event?: string | undefined;
  readonly method?: string | undefined;
  /** The rule that decided, or `-` for entries without one. */
  readonly rule?: string | undefined;
  /** The exact outcome, decision or code, `refusal` for what Ambit refused, or `error` for everything that did not succeed. */
  readonly outcome?: string | undefined;
  /** The earliest and the latest time, in UTC as `toISOString` writes it. */
  readonly since?: string | undefined;
  readonly until?: string | undefined;
  /** Texts that all occur in the values of the entry, in any letter case. */
  readonly words?: readonly string[] | undefined;
}

/** A page of anything that is read from the journal. */
interface JournalPage<Item> {
  readonly items: readonly Item[];
  /** The cursor for older items; null if there are none left. A page may be empty and not the last. */
  readonly next: string | null;
  /** Lines that are no entries: cut off by a crash, too long, or not of Ambit. */
  readonly unreadable: number;
}

export interface PageQuery {
  readonly limit: number;
  /** `next` of the previous page. */
  readonly before?: string | undefined;
  /** Aborted when nobody waits for the page any more. Then it ends early, and is empty. */
  readonly signal?: Pick<AbortSignal, 'aborted'> | undefined;
}

export interface EntriesPage extends Pick<JournalPage<unknown>, 'next' | 'unreadable'> {
  readonly entries: readonly RecordedEntry[];
}

/** An exchange as the journal recorded it. */
export interface RecordedCall
  extends Pick<CallEntry, 'server' | 'method' | 'outcome'>,
    // Streams, batches and the end of a transport session are recorded without these.
    Partial<Pick<CallEntry, 'id' | 'ms' | 'bytesIn' | 'bytesOut'>> {
  readonly at: string;
  readonly name?: string;
  readonly rule?: string;
  readonly claims?: string;
  readonly argsSha256?: string;
  readonly upstreamMs?: number;
  readonly entrance: 'http' | 'stdio';
  readonly era: 'modern' | 'handshake';
  readonly workspaceId?: string;
  readonly cached?: string;
  readonly traceId?: string;
}

export interface CallsPage {
  readonly calls: readonly RecordedCall[];
  readonly next: string | null;
}

const callFields = [
  ...['id', 'server', 'method', 'name', 'outcome', 'rule', 'claims', 'argsSha256', 'entrance', 'era'],
  ...['workspaceId', 'cached', 'traceId', 'ms', 'upstreamMs', 'bytesIn', 'bytesOut'],
];
const pieceBytes = 65_536;
/** Limit of bytes that are searched for one page: a journal may be very large. */
const maxPageBytes = 16 << 20;
/** No entry is so long; a longer line is not one of ours. */
export const maxLineBytes = 1 << 20;
/** Several processes write at their own pace, so a line may be this much older than those before it. */
const maxDisorderMs = 60_000;
export const newLine = 10;
const [openBrace, closeBrace, quote] = [0x7b, 0x7d, 0x22];
const noBytes = Buffer.alloc(0);

/** Reads the calls of a session, newest first. */
export async function readCalls(
  file: string,
  sessionId: string,
  query: PageQuery,
  limitBytes = maxPageBytes,
): Promise<CallsPage> {
  // Lines are compared as bytes: those of one session are few, and only they are parsed.
  const marks = [createMark('sessionId', sessionId), createMark('kind', 'call')];
  const { items, next } = await readPage(file, query, limitBytes, {}, (line) => {
    const entry = parseMarked(line, marks);
    if (entry?.kind !== 'call' || entry['sessionId'] !== sessionId) return undefined;
    const fields = callFields.filter((name) => entry[name] !== undefined).map((name) => [name, entry[name]]);
    return { at: entry.time, ...Object.fromEntries(fields) } as RecordedCall;
  });
  return { calls: items, next };
}

/** Reads the entries that match a filter, newest first. */
export async function searchEntries(
  file: string,
  filter: EntryFilter,
  query: PageQuery,
  limitBytes = maxPageBytes,
): Promise<EntriesPage> {
  const { kind, server, user, session, id, event, method, rule, tool, outcome } = filter;
  const marks = [
    ...(kind === undefined ? [] : [createMark('kind', kind)]),
    ...(server === undefined ? [] : [createMark('server', server)]),
    ...(event === undefined ? [] : [createMark('event', event)]),
    ...(method === undefined ? [] : [createMark('method', method)]),
    ...(rule === undefined || rule === noRule ? [] : [createMark('rule', rule)]),
    ...(outcome === undefined || outcome === 'error' || outcome === 'refusal' ? [] : [createTextMark(outcome)]),
    // The server in front of the name is not in each line.
    ...(tool === undefined ? [] : [createTextMark(tool.replace(/^.*__/s, ''))]),
    ...(user === undefined ? [] : [createMark('userId', user)]),
    ...(session === undefined ? [] : [createMark('sessionId', session).subarray(0, -1)]),
    ...(id === undefined ? [] : [createMark('id', id).subarray(0, -1)]),
  ];
  const ofSessions = filter.sessionIds && new Set(filter.sessionIds);
  const words = filter.words?.map(foldCase) ?? [];
  // Most lines are ruled out without parsing them: a value stands in its line as JSON writes it.
  const writtenWords = words.map(writeText);
  const { items, next, unreadable } = await readPage(file, query, limitBytes, filter, (line) => {
    const text = words.length === 0 ? '' : foldCase(line.toString('utf8'));
    if (!writtenWords.every((word) => text.includes(word))) return undefined;
    if (ofSessions !== undefined && !namesSession(line, ofSessions)) return undefined;
    const entry = parseMarked(line, marks);
    return entry !== undefined && matchesFields(entry, filter) && hasWords(entry, words) ? entry : undefined;
  });
  return { entries: items, next, unreadable };
}

/** A line that is no entry. */
class UnreadableLine extends Error {}

/** Reads one page from all files, newest first. `read` returns an item, or undefined for a line without one. */
async function readPage<Item>(
  file: string,
  { limit, before, signal }: PageQuery,
  limitBytes: number,
  { since, until }: EntryFilter,
  read: (line: Buffer) => Item | undefined,
): Promise<JournalPage<Item>> {
  const items: Item[] = [];
  let unreadable = 0;
  const oldest = since === undefined ? '' : new Date(Date.parse(since) - maxDisorderMs).toISOString();
  let isPast = false;

  /** Takes a line. Returns true when no further line is needed. */
  function take(line: Buffer): boolean {
    if (line.length === 0) return false;
    const time = readLineTime(line) ?? '';
    isPast = time !== '' && time < oldest;
    if (isPast) return true;
    try {
      if (line[0] !== openBrace || line[line.length - 1] !== closeBrace) throw new UnreadableLine();
      const isOutside = time !== '' && ((since !== undefined && time < since) || (until !== undefined && time > until));
      const item = isOutside ? undefined : read(line);
      if (item !== undefined) items.push(item);
    } catch (error) {
      if (!(error instanceof UnreadableLine)) throw error;
      unreadable++;
    }
    return items.length === limit;
  }

  const isGone = () => signal?.aborted === true;
  let cursor = before === undefined ? undefined : parseCursor(before);
  let bytesLeft = limitBytes;
  for await (const { handle, inode, size } of openNewestFirst(file)) {
    if (isGone()) break;
    if (cursor !== undefined && cursor.inode !== inode) continue;
    const end = Math.min(cursor?.offset ?? size, size);
    cursor = undefined;
    if (items.length === limit || bytesLeft === 0) return { items, next: `${inode}-${end}`, unreadable };
    if (until !== undefined && (await readFirstTime(handle)) > until) continue;
    const reached = await readBackwards(handle, end, Math.max(0, end - bytesLeft), take, isGone);
    bytesLeft = Math.max(0, bytesLeft - (end - reached));
    if (isPast || isGone()) break;
    if (reached > 0) return { items, next: `${inode}-${reached}`, unreadable };
  }
  return isGone() ? { items: [], next: null, unreadable: 0 } : { items, next: null, unreadable };
}

/** Reads lines from `end` down to `stop`. Returns the position before which nothing has been read yet. */
async function readBackwards(
  handle: FileHandle,
  from: number,
  stop: number,
  take: (line: Buffer) => boolean,
  isGone: () => boolean,
): Promise<number> {
  let end = from;
  let rest: Buffer = noBytes;
  while (end > stop && !isGone()) {
    const start = Math.max(stop, end - pieceBytes);
    const piece = Buffer.alloc(end - start);
    const { bytesRead } = await handle.read(piece, 0, piece.length, start);
    if (bytesRead < piece.length) break;
    const text = rest.length === 0 ? piece : Buffer.concat([piece, rest]);
    let lineEnd = text.length;
    // The start of a line is known once the end of the previous line, or the start of the file, is seen.
    for (;;) {
      const cut = lineEnd === 0 ? -1 : text.lastIndexOf(newLine, lineEnd - 1);
      if (cut === -1 && start > 0) break;
      if (take(text.subarray(cut + 1, lineEnd))) return start + cut + 1;
      if (cut === -1) break;
      lineEnd = cut;
    }
    rest = start === 0 || lineEnd > maxLineBytes ? noBytes : Buffer.from(text.subarray(0, lineEnd));
    end = start;
  }
  return end + rest.length;
}

/** Reads the time of the first line, less what lines may be out of order; empty if it has none. */
async function readFirstTime(handle: FileHandle): Promise<string> {
  const start = Buffer.alloc(64);
  const { bytesRead } = await handle.read(start, 0, start.length, 0);
  const time = Date.parse(readLineTime(start.subarray(0, bytesRead)) ?? '');
  return Number.isNaN(time) ? '' : new Date(time - maxDisorderMs).toISOString();
}

/** Parses a cursor: the inode of a file, which keeps it when it is closed, and a position in it. */
function parseCursor(text: string): { readonly inode: number; readonly offset: number } {
  const [inode, offset] = text.split('-').map(Number);
  return { inode: inode ?? 0, offset: offset ?? 0 };
}

/** Creates the bytes of a member as the journal writes it. */
function createMark(name: string, value: string): Buffer {
  return Buffer.from(`"${name}":${JSON.stringify(value)}`);
}

/** Creates the bytes of a value, or of a part of one, as the journal writes it. */
function createTextMark(text: string): Buffer {
  return Buffer.from(writeText(text));
}

function writeText(text: string): string {
  return JSON.stringify(text).slice(1, -1);
}

const sessionMark = createMark('sessionId', '').subarray(0, -1);

/** Whether a line has a member with the id of one of the sessions. There may be many, so each line is searched once. */
function namesSession(line: Buffer, ids: ReadonlySet<string>): boolean {
  for (let at = line.indexOf(sessionMark); at !== -1; at = line.indexOf(sessionMark, at + 1)) {
    const start = at + sessionMark.length;
    const end = line.indexOf(quote, start);
    if (end !== -1 && ids.has(line.toString('latin1', start, end))) return true;
  }
  return false;
}

/** Parses a line that contains all marks; undefined for another one. */
function parseMarked(line: Buffer, marks: readonly Buffer[]): RecordedEntry | undefined {
  return marks.every((mark) => line.includes(mark)) ? parseEntry(line) : undefined;
}

const maxDepth = 20;

/** Parses a line. Throws if it is no entry. */
export function parseEntry(line: Buffer): RecordedEntry {
  let entry: unknown;
  try {
    entry = JSON.parse(line.toString('utf8'));
  } catch {
    throw new UnreadableLine();
  }
  if (typeof entry !== 'object' || entry === null || !canBeText(entry)) throw new UnreadableLine();
  const { time, kind } = entry as Record<string, unknown>;
  if (typeof time !== 'string' || typeof kind !== 'string') throw new UnreadableLine();
  return entry as RecordedEntry;
}

/** Whether all values can be turned into text. An object with a member "toString" cannot, and the journal writes none. */
function canBeText(value: unknown, depth = 0): boolean {
  if (typeof value !== 'object' || value === null) return true;
  if (depth > maxDepth || Object.hasOwn(value, 'toString') || Object.hasOwn(value, 'valueOf')) return false;
  return Object.values(value).every((each) => canBeText(each, depth + 1));
}

function matchesFields(entry: RecordedEntry, filter: EntryFilter): boolean {
  const { id, session, sessionIds, user, server, tool, kind, event, method, rule, outcome } = filter;
  const startsWith = (value: unknown, start: string) => typeof value === 'string' && value.startsWith(start);
  return (
    (id === undefined || startsWith(entry['id'], id)) &&
    (session === undefined || startsWith(entry['sessionId'], session)) &&
    (sessionIds === undefined || sessionIds.some((each) => each === entry['sessionId'])) &&
    (user === undefined || entry['userId'] === user) &&
    (server === undefined || entry['server'] === server) &&
    (kind === undefined || entry.kind === kind) &&
    (event === undefined || entry['event'] === event) &&
    (method === undefined || entry['method'] === method) &&
    (rule === undefined || (entry['rule'] ?? noRule) === rule) &&
    (tool === undefined || isAboutTool(entry, tool)) &&
    (outcome === undefined || hasOutcome(entry, outcome))
  );
}

/** Whether an entry is about a tool. Calls at the address of all servers have the name of the server in front. */
function isAboutTool({ server, name, tool }: RecordedEntry, wanted: string): boolean {
  if (tool === wanted || name === wanted) return true;
  return typeof name === 'string' && (name.endsWith(`__${wanted}`) || `${server}__${name}` === wanted);
}

const noRule = '-';
/** Errors of servers have other outcomes. */
const refusalCode = /^[A-Z][A-Z_]*$/;

function hasOutcome(entry: RecordedEntry, wanted: string): boolean {
  const { kind, outcome } = entry;
  if (wanted === 'error') return isFailure(entry);
  if (wanted === 'refusal') return kind === 'refusal' || (kind === 'call' && refusalCode.test(String(outcome)));
  return [entry['outcome'], entry['decision'], entry['code']].some((value) => String(value) === wanted);
}

const failureEvents: ReadonlySet<unknown> = new Set([
  ...['start-failed', 'endless-line', 'unreadable-lines', 'refused', 'entries-lost', 'login-lost', 'not-resolved'],
]);

/** Whether an entry records something that did not succeed. */
export function isFailure(entry: RecordedEntry): boolean {
  const { kind, event, outcome, decision, status } = entry;
  if (kind === 'refusal' || failureEvents.has(event)) return true;
  if (typeof status === 'number' && status >= 400) return true;
  // A message that no client waits for is dropped: that is no failure.
  if (kind === 'push' && outcome === 'undelivered') return false;
  return (outcome ?? 'ok') !== 'ok' || (decision ?? 'allowed') !== 'allowed';
}

function hasWords(entry: RecordedEntry, words: readonly string[]): boolean {
  if (words.length === 0) return true;
  const text = foldCase(Object.values(entry).join('\n'));
  return words.every((word) => text.includes(word));
}

/** Makes letter case irrelevant. How a sigma is written depends on the letters beside it, which differ in a line. */
function foldCase(text: string): string {
  return text.toLowerCase().replaceAll('ς', 'σ');
}
