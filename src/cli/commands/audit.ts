import { existsSync } from 'node:fs';
import { AmbitError, isAmbitError } from '../../errors.ts';
import { escapeControls, toPlainLine } from '../../lib/text/escape-controls.ts';
import { formatCount } from '../../lib/text/format-count.ts';
import { followEntries } from '../../observability/journal/follow-entries.ts';
import { entryKinds } from '../../observability/journal/journal.ts';
import { journalPath } from '../../observability/journal/journal-files.ts';
import {
  type EntriesPage,
  type EntryFilter,
  isFailure,
  type PageQuery,
  type RecordedEntry,
  searchEntries,
} from '../../observability/journal/read-entries.ts';
import {
  type Command,
  type Invocation,
  readCountFlag,
  readFlag,
  readTimeFlag,
  requirePositional,
  UsageError,
} from '../command.ts';
import { controlRequest, isUnreachable, runningGatewayRequest } from '../io/control-request.ts';
import { announceStore, findGateway, type GatewayTarget } from '../io/find-gateway.ts';
import {
  formatJson,
  formatLocalTime,
  paintText,
  renderPairs,
  shortenEnd,
  watchReader,
  writeLine,
} from '../io/output.ts';

const defaultLines = 20;
const defaultMatches = 50;
const maxLines = 10_000;
/** The most that one request to the gateway returns. */
const pageSize = 200;
const minIdLength = 6;
const jsonLinesFlag = { type: 'boolean', help: 'Print the lines as they are, one JSON object per line' } as const;

const say = (line: string) => void process.stderr.write(`ambit: ${escapeControls(line)}\n`);

export const auditTail: Command = {
  help: 'Show the last lines of the journal',
  flags: {
    lines: { type: 'string', short: 'n', value: 'N', help: `Show at most N lines; default: ${defaultLines}` },
    follow: { type: 'boolean', short: 'f', help: 'Wait for new lines until Ctrl-C' },
    json: jsonLinesFlag,
  },
  async run(invocation) {
    const lines = readCountFlag(invocation, 'lines', { shown: '-n', min: 0, max: maxLines }) ?? defaultLines;
    if (invocation.flags['follow'] === true) {
      await followJournal(invocation, lines);
      return;
    }
    const { entries, unreadable } = await collectEntries(invocation, {}, lines);
    const print = createEntryPrinter(invocation);
    for (const entry of entries.toReversed()) await print(entry);
    if (entries.length === 0 && lines > 0) say('The journal is empty.');
    sayUnreadable(unreadable);
  },
};

export const auditSearch: Command = {
  operands: '[WORDS…]',
  help: 'Search the journal, newest lines first',
  flags: {
    session: {
      type: 'string',
      value: 'ID',
      help: 'Only this session: its ID or the beginning of it, or a name, also of ended sessions',
    },
    user: { type: 'string', value: 'NAME', help: 'Only this user' },
    server: { type: 'string', value: 'NAME', help: 'Only this server' },
    tool: { type: 'string', value: 'NAME', help: 'Only this tool: TOOL or SERVER__TOOL' },
    kind: { type: 'string', value: 'KIND', help: `Only this kind: ${entryKinds.join(', ')}`, choices: entryKinds },
    event: { type: 'string', value: 'EVENT', help: 'Only this event, such as created or start-failed' },
    method: { type: 'string', value: 'METHOD', help: 'Only calls of this method, such as tools/call' },
    rule: { type: 'string', value: 'RULE', help: 'Only decisions of this rule; -: only lines without a rule' },
    outcome: {
      type: 'string',
      value: 'OUTCOME',
      help: 'Only this outcome, such as ok or PERMISSION_DENIED; error: all that failed; refusal: what Ambit refused',
    },
    since: { type: 'string', value: 'TIME', help: 'Only later lines: a time ago such as 1h or 2d, or a date or time' },
    until: { type: 'string', value: 'TIME', help: 'Only earlier lines' },
    limit: { type: 'string', value: 'N', help: `Show at most N lines; default: ${defaultMatches}` },
    json: jsonLinesFlag,
  },
  async run(invocation) {
    const limit = readCountFlag(invocation, 'limit', { max: maxLines }) ?? defaultMatches;
    const words = invocation.positionals.flatMap((each) => each.split(/\s+/)).filter((each) => each !== '');
    const filter: EntryFilter = {
      ...Object.fromEntries(
        ['session', 'user', 'server', 'tool', 'kind', 'event', 'method', 'rule', 'outcome'].map((name) => [
          name,
          readFilterFlag(invocation, name),
        ]),
      ),
      since: readTimeFlag(invocation, 'since'),
      until: readTimeFlag(invocation, 'until'),
      words,
    };
    const print = createEntryPrinter(invocation);
    const found = await visitEntries(invocation, filter, limit, print);
    if (found.count === 0) say('No line of the journal matches.');
    if (found.hasMore)
      say(`These are the newest ${found.count} lines. Show more with --limit, or older ones with --until.`);
    sayUnreadable(found.unreadable);
  },
};

export const auditShow: Command = {
  operands: 'ID',
  help: 'Show a call and all lines that belong to it',
  flags: { json: { type: 'boolean', help: 'Print JSON' } },
  async run(invocation) {
    const given = requirePositional(invocation, 'ID');
    if (given.length < minIdLength)
      throw new UsageError(`ID takes at least ${minIdLength} characters of the id of a call`);
    const entries = await findCallEntries(invocation, given);
    const call = entries.find(({ kind }) => kind === 'call') ?? entries[0];
    if (call === undefined) {
      throw new AmbitError('REQUEST_INVALID', {
        what: `The journal has no call with the id "${given.slice(0, 64)}".`,
        hint: 'Find calls with "ambit audit search --kind call". For a session: "ambit audit search --session ID".',
      });
    }
    const { id } = call;
    const all = [...(await findProcessStart(invocation, call)), ...entries];
    // The call may have caused the start.
    const unique = [...new Map(all.map((entry) => [formatJson(entry), entry])).values()];
    if (invocation.flags.json === true) {
      process.stdout.write(`${formatJson({ id, entries: unique })}\n`);
      return;
    }
    process.stdout.write(
      `${renderPairs(Object.entries(call).map(([name, value]) => [name, showValue(name, value)]))}\n\n`,
    );
    const print = createEntryPrinter(invocation);
    for (const entry of unique) await print(entry);
  },
};

/** Reads a page from the running gateway; without one, from the files of the journal. */
async function readPage(invocation: Invocation, filter: EntryFilter, page: PageQuery): Promise<EntriesPage> {
  const { words, kind, ...rest } = filter;
  const query = {
    ...rest,
    ...page,
    kind: entryKinds.find((each) => each === kind),
    words: words?.length ? words.join(' ') : undefined,
  };
  try {
    return await runningGatewayRequest(invocation, 'GET /api/v1/journal', { query });
  } catch (error) {
    if (!isUnreachable(error)) throw error;
  }
  const target = await findGateway(invocation);
  announceStore(invocation, target);
  const named = await findNamedSessions(invocation, target, filter.session);
  const { session, ...others } = filter;
  const wanted = named.length === 0 ? filter : { ...others, sessionIds: named };
  return searchEntries(journalPath(target.dataDir), wanted, page);
}

const namedSessions = new WeakMap<Invocation, Promise<readonly string[]>>();

/** Finds the ids of all live and ended sessions with a name, for reading the journal without a gateway. */
async function findNamedSessions(
  invocation: Invocation,
  target: GatewayTarget,
  reference: string | undefined,
): Promise<readonly string[]> {
  if (reference === undefined || !isSessionName(reference, target.dataDir)) return [];
  const known = namedSessions.get(invocation) ?? askForNamed(invocation, target, reference);
  namedSessions.set(invocation, known);
  return known;
}

async function askForNamed(invocation: Invocation, target: GatewayTarget, name: string): Promise<readonly string[]> {
  const live = (await resolveSession(invocation, target, name)) ?? name;
  const ended = await controlRequest(invocation, 'GET /api/v1/sessions/ended', { query: { name, limit: 1000 } }).catch(
    (error: unknown) => {
      // The journal can be read without the store.
      if (isAmbitError(error)) return { sessions: [] };
      throw error;
    },
  );
  return [...(live === name ? [] : [live]), ...ended.sessions.map(({ id }) => id)];
}

/** Finds the id of a session for reading the journal without a gateway. A reference that may be an id stays as it is. */
export async function resolveSession(
  invocation: Invocation,
  { dataDir }: Pick<GatewayTarget, 'dataDir'>,
  reference: string | undefined,
): Promise<string | undefined> {
  return reference !== undefined && isSessionName(reference, dataDir)
    ? findSessionId(invocation, reference)
    : reference;
}

/** Whether the store is asked for the session with this name. */
function isSessionName(reference: string, dataDir: string): boolean {
  return !/^[0-9a-f]{4,32}$/.test(reference) && existsSync(dataDir);
}

const sessionIds = new WeakMap<Invocation, Promise<string>>();

/** Finds the id of a live session by its name. Otherwise the reference is the beginning of an id. */
function findSessionId(invocation: Invocation, reference: string): Promise<string> {
  const known = sessionIds.get(invocation);
  if (known !== undefined) return known;
  const found = controlRequest(invocation, 'GET /api/v1/sessions/{id}', { id: reference }).then(
    ({ id }) => id,
    (error: unknown) => {
      // The journal can be read without the store.
      if (isAmbitError(error)) return reference;
      throw error;
    },
  );
  sessionIds.set(invocation, found);
  return found;
}

interface FoundEntries {
  readonly count: number;
  readonly hasMore: boolean;
  readonly unreadable: number;
}

/** Visits the newest entries that match, newest first. */
async function visitEntries(
  invocation: Invocation,
  filter: EntryFilter,
  limit: number,
  visit: (entry: RecordedEntry) => unknown,
): Promise<FoundEntries> {
  let [count, unreadable] = [0, 0];
  for (let before: string | null | undefined; before !== null && count < limit; ) {
    // The reader of the output has left, such as "head".
    if (process.stdout.errored) break;
    const page = await readPage(invocation, filter, { limit: Math.min(pageSize, limit - count), before });
    for (const entry of page.entries) await visit(entry);
    count += page.entries.length;
    unreadable += page.unreadable;
    before = page.next;
    if (count === limit) return { count, hasMore: before !== null, unreadable };
  }
  return { count, hasMore: false, unreadable };
}

async function collectEntries(invocation: Invocation, filter: EntryFilter, limit: number) {
  const entries: RecordedEntry[] = [];
  const found = await visitEntries(invocation, filter, limit, (entry) => entries.push(entry));
  return { ...found, entries };
}

async function followJournal(invocation: Invocation, last: number): Promise<void> {
  const { dataDir } = await findGateway(invocation);
  const print = createEntryPrinter(invocation);
  // The files are read, also with a running gateway: they have the lines of all processes, and outlive each of them.
  await followEntries(
    journalPath(dataDir),
    { last, signal: watchReader() },
    { entry: print, unreadable: sayUnreadable },
  );
}

/** The time that lines of a call may lie before its start: other processes write at their own pace. */
const slackMs = 60_000;
/** Longer than the longest life of a process, unless configured. */
const maxProcessMs = 25 * 3_600_000;
/** The time in which a server writes its first line. */
const startupMs = 60_000;
const maxCallLines = 1000;

/** Finds all entries of a call, oldest first. */
async function findCallEntries(invocation: Invocation, id: string): Promise<readonly RecordedEntry[]> {
  const newest = (await collectEntries(invocation, { id }, 1)).entries[0];
  if (newest === undefined) return [];
  const startedAt = Date.parse(newest.time) - (typeof newest['ms'] === 'number' ? newest['ms'] : 0);
  const { entries } = await collectEntries(invocation, { id, since: toInstant(startedAt - slackMs) }, maxCallLines);
  const ids = new Set(entries.map((entry) => entry['id']));
  if (ids.size < 2) return entries.length === 0 ? [newest] : entries.toReversed();
  throw new AmbitError('REQUEST_INVALID', {
    what: `The ids of several calls begin with "${id.slice(0, 64)}".`,
    hint: `Give more of the id: ${[...ids].slice(0, 4).join(', ')}.`,
  });
}

/** Finds the start of the process that served a call, and the first line that the process wrote to stderr. */
async function findProcessStart(invocation: Invocation, call: RecordedEntry): Promise<readonly RecordedEntry[]> {
  const { pid, server, time } = call;
  if (typeof pid !== 'number' || typeof server !== 'string') return [];
  const at = Date.parse(time);
  const ofProcess = { kind: 'process', server } as const;
  const isOurs = (event: string) => (entry: RecordedEntry) => entry['pid'] === pid && entry['event'] === event;
  const since = toInstant(at - maxProcessMs);
  const starts = await collectEntries(invocation, { ...ofProcess, words: ['started'], since, until: time }, maxLines);
  const start = starts.entries.find(isOurs('started'));
  if (start === undefined) return [];
  const until = toInstant(Date.parse(start.time) + startupMs);
  const lines = await collectEntries(invocation, { ...ofProcess, since: start.time, until }, maxLines);
  return [start, ...lines.entries.filter(isOurs('stderr')).slice(-1)];
}

/** Creates the function that prints one entry in one line: as JSON, or for people in the width of their terminal. */
function createEntryPrinter(invocation: Invocation): (entry: RecordedEntry) => Promise<void> {
  let hasHeader = invocation.flags.json === true;
  return async (entry) => {
    if (!hasHeader) await writeLine(invocation, undefined, paintText('bold', headerLine));
    hasHeader = true;
    await writeLine(invocation, entry, renderEntry(entry));
  };
}

const shortLength = 8;
const idFields: ReadonlySet<string> = new Set(['id', 'sessionId', 'keyId', 'traceId', 'spanId', 'cached']);
const columnWidths = [14, shortLength, shortLength] as const;
const headerLine = joinColumns(['TIME', 'CALL', 'SESSION', 'ENTRY']);

function joinColumns(cells: readonly string[]): string {
  return cells.map((cell, i) => cell.padEnd(columnWidths[i] ?? 0)).join('  ');
}

/** Renders an entry in one line of a terminal. Other output is not shortened, because programs read it. */
export function renderEntry(entry: RecordedEntry, columns = process.stdout.isTTY ? process.stdout.columns : 0): string {
  const { time, id = '-', sessionId = '-' } = entry;
  const cells = [formatTime(time), showValue('id', id), showValue('sessionId', sessionId), describeEntry(entry)];
  const line = toPlainLine(joinColumns(cells));
  const fitted = columns > 0 ? shortenEnd(line, columns) : line;
  return isFailure(entry) ? paintText('red', fitted) : fitted;
}

/** Formats a time without its year. */
function formatTime(time: string): string {
  return Number.isNaN(Date.parse(time)) ? time.slice(0, columnWidths[0]) : formatLocalTime(new Date(time)).slice(5);
}

/** Fields that have a place of their own in the line of an entry. */
const placedFields: ReadonlySet<string> = new Set([
  ...['time', 'id', 'sessionId', 'kind', 'event', 'server', 'method', 'name', 'tool', 'operation', 'asked', 'resolved'],
  ...['outcome', 'decision', 'line', 'ms', 'entrance', 'era', 'bytesIn', 'bytesOut', 'bytes', 'traceId', 'spanId'],
  ...['argsSha256', 'upstreamMs', 'claims'],
]);

/** Describes an entry: what it is about first, then the result, then all other fields. */
function describeEntry(entry: RecordedEntry): string {
  const { kind, event, server, method, name, tool, operation, asked, resolved, outcome, decision, line, ms } = entry;
  const isToolCall = method === 'tools/call' && name !== undefined;
  // At the address of all servers, the name of a tool begins with that of its server.
  const isInName = typeof name === 'string' && name.startsWith(`${server}__`);
  const where = isInName ? undefined : server;
  const isOutput = event === 'stderr';
  const subject = [kind, isOutput ? undefined : event, where, isToolCall ? undefined : method, name];
  const target = [tool, operation, asked, ...(resolved === undefined || resolved === asked ? [] : ['->', resolved])];
  const result = outcome ?? decision ?? line;
  const details = [
    ...(typeof ms === 'number' ? [`${ms < 10 ? ms.toFixed(1) : Math.round(ms)} ms`] : []),
    ...Object.entries(entry)
      .filter(([field]) => !placedFields.has(field) && !(isOutput && field === 'runner'))
      .map(([field, value]) => `${field}=${showValue(field, value)}`),
  ];
  const head = [...subject, ...target].filter((part) => part !== undefined).join(' ');
  return [result === undefined ? head : `${head}: ${result}`, ...details].join(', ');
}

function showValue(field: string, value: unknown): string {
  const text = typeof value === 'string' ? value : JSON.stringify(value);
  return idFields.has(field) ? text.slice(0, shortLength) : text;
}

function sayUnreadable(count: number): void {
  if (count > 0) say(`${formatCount(count, 'damaged line')} skipped`);
}

function readFilterFlag(invocation: Invocation, name: string): string | undefined {
  const given = readFlag(invocation, name);
  if (given === '') throw new UsageError(`--${name} is empty`);
  return given;
}

function toInstant(time: number): string {
  return new Date(time).toISOString();
}
