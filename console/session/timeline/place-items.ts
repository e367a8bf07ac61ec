import type { AnswerOf } from '../../api/request.ts';
import { describeEntry, type JournalEntry } from '../../journal/describe-entry.ts';
import { describePlace, nameSession, readText, readToolName } from '../../journal/entry-fields.ts';

/** The lanes of the timeline, in their order. */
export const lanes = [
  { name: 'calls', label: 'Calls', noun: 'call', many: 'calls' },
  { name: 'refusals', label: 'Refusals', noun: 'refusal', many: 'refusals' },
  { name: 'processes', label: 'Processes', noun: 'process', many: 'processes' },
  { name: 'files', label: 'Files', noun: 'file access', many: 'file accesses' },
  { name: 'messages', label: 'Messages', noun: 'message', many: 'messages' },
  { name: 'children', label: 'Child sessions', noun: 'child session', many: 'child sessions' },
  { name: 'session', label: 'Session', noun: 'event', many: 'events' },
] as const;

export type LaneName = (typeof lanes)[number]['name'];

/** What a live session does now. */
export type Activity = NonNullable<AnswerOf<'GET /api/v1/sessions/{id}'>['activity']>;

/** Something that happened in a session, at one time or over a span. */
export interface TimelineItem {
  readonly key: string;
  readonly lane: LaneName;
  readonly from: number;
  /** Undefined if it goes on. */
  readonly until: number | undefined;
  readonly label: string;
  /** The few words that a bar has room for. */
  readonly shortLabel: string;
  readonly tone: 'plain' | 'bad' | 'warn';
  readonly entry: JournalEntry;
  /** Further lines about the same thing, the oldest first. */
  readonly related: readonly JournalEntry[];
}

/** Ambit's own refusals are codes in capitals or numbers of protocol errors; a server's errors are neither. */
const refusalOutcome = /^(?:[A-Z][A-Z_]+|-?\d+)$/;

/** Turns the lines of the journal about one session into the items of its timeline, the newest first. */
export function placeItems(entries: readonly JournalEntry[], sessionId: string): readonly TimelineItem[] {
  const oldestFirst = [...entries].reverse();
  const processes = new Map<string, TimelineItem>();
  const items: TimelineItem[] = [];
  const counts = new Map<string, number>();
  for (const entry of oldestFirst) {
    // Some lines name no process: they are no sign that one runs.
    if (entry.kind === 'process' && (entry['pid'] !== undefined || isFailure(entry))) addProcess(processes, entry);
    else if (isEndOfChild(entry, sessionId)) endChild(items, entry);
    else items.push(...placeEntry(entry, sessionId, makeKey(entry, counts)));
  }
  return [...items, ...processes.values()].sort((one, other) => other.from - one.from);
}

/** Makes an item of the call that a session waits for. The journal gets its line when it ends. */
export function placeRunningCall({ current, underWay }: Activity): TimelineItem[] {
  if (current === null) return [];
  const { server, tool, since } = current;
  const entry: JournalEntry = { time: since, kind: 'call', method: 'tools/call', server, name: tool };
  const others = underWay > 1 ? `, and ${underWay - 1} more` : '';
  return [
    {
      key: `running ${since}`,
      lane: 'calls',
      from: Date.parse(since),
      until: undefined,
      label: `Tool ${readToolName(entry)} of ${describePlace(entry)} is under way${others}`,
      shortLabel: shortenLabel(entry),
      tone: 'plain',
      entry,
      related: [],
    },
  ];
}

function shortenLabel(entry: JournalEntry): string {
  if (entry.kind === 'process') return `${readText(entry, 'server')}, pid ${readText(entry, 'pid')}`;
  return readToolName(entry) || describeEntry(entry);
}

/** Names an item by its line alone, so that its bar stays the same one when further lines are found. */
function makeKey(entry: JournalEntry, counts: Map<string, number>): string {
  const { time, kind } = entry;
  const key = [time, kind, entry['event'], entry['id'], entry['operation'], entry['asked']].join(' ');
  const count = (counts.get(key) ?? 0) + 1;
  counts.set(key, count);
  return `${key} ${count}`;
}

function placeEntry(entry: JournalEntry, sessionId: string, key: string): TimelineItem[] {
  const end = Date.parse(entry.time);
  const make = (lane: LaneName, change: Partial<TimelineItem> = {}): TimelineItem[] => [
    {
      key,
      lane,
      from: end,
      until: end,
      label: describeEntry(entry),
      shortLabel: shortenLabel(entry),
      tone: 'plain',
      entry,
      related: [],
      ...change,
    },
  ];
  const { kind } = entry;
  if (kind === 'call') {
    const ms = typeof entry['ms'] === 'number' ? entry['ms'] : 0;
    const outcome = String(entry['outcome'] ?? '');
    const isRefused = refusalOutcome.test(outcome);
    return make(isRefused ? 'refusals' : 'calls', {
      from: end - ms,
      tone: isRefused ? 'bad' : outcome === 'ok' ? 'plain' : 'warn',
    });
  }
  if (kind === 'push') return make('calls', { tone: entry['outcome'] === 'ok' ? 'plain' : 'warn' });
  if (kind === 'file') {
    // A tool looks whether a file exists before it makes one: that is no error.
    const isPlain = entry['decision'] === 'allowed' || entry['code'] === 'FILE_NOT_FOUND';
    return make('files', { tone: isPlain ? 'plain' : 'bad' });
  }
  if (kind === 'egress')
    return make(entry['event'] === 'refused' ? 'refusals' : 'processes', {
      tone: entry['event'] === 'refused' ? 'bad' : 'plain',
    });
  if (kind === 'refusal') return make('refusals', { tone: 'bad' });
  if (kind === 'process') return make('processes', { tone: 'warn' });
  if (kind !== 'session') return make('session');
  const { event } = entry;
  if (event === 'message-sent' && entry['toSessionId'] === sessionId && typeof entry['sessionId'] === 'string') {
    return make('messages', { label: `Session ${nameSession(entry, 'sessionId')} sent a message to this session` });
  }
  if (event === 'message-sent' || event === 'reported') return make('messages');
  if (isAboutChild(entry, sessionId)) return make('children', event === 'created' ? { until: undefined } : {});
  if (entry['sessionId'] !== sessionId) return [];
  return make('session', { tone: event === 'not-resolved' ? 'warn' : 'plain' });
}

/** The events of the journal with which a session ends. */
export const sessionEnds: ReadonlySet<string> = new Set(['ended', 'expired', 'evicted', 'revoked', 'closed']);

/** Tells whether a line is about a child of this session. */
export function isAboutChild({ kind, ...entry }: JournalEntry, sessionId: string): boolean {
  return kind === 'session' && entry['parentId'] === sessionId && entry['sessionId'] !== sessionId;
}

function isEndOfChild(entry: JournalEntry, sessionId: string): boolean {
  return isAboutChild(entry, sessionId) && sessionEnds.has(String(entry['event']));
}

/** Ends the bar of a child session. */
function endChild(items: TimelineItem[], entry: JournalEntry): void {
  const at = items.findIndex(
    ({ lane, until, entry: opening }) =>
      lane === 'children' && until === undefined && opening['sessionId'] === entry['sessionId'],
  );
  const item = items[at];
  if (item !== undefined) items[at] = { ...item, until: Date.parse(entry.time), related: [...item.related, entry] };
}

const failures: ReadonlySet<unknown> = new Set(['start-failed', 'endless-line', 'unreadable-lines']);

function isFailure({ event }: JournalEntry): boolean {
  return failures.has(event);
}

/** Joins the lines of one process into one item from its start to its end. */
function addProcess(processes: Map<string, TimelineItem>, entry: JournalEntry): void {
  const key = `${String(entry['server'])} ${String(entry['pid'] ?? entry.time)}`;
  const time = Date.parse(entry.time);
  const { event } = entry;
  const before = processes.get(key);
  const isBad = isFailure(entry);
  if (before === undefined || (event === 'started' && before.until !== undefined)) {
    const ms = typeof entry['ms'] === 'number' ? entry['ms'] : 0;
    // The system gives numbers of processes again: later lines are about the newer one.
    if (before !== undefined) processes.set(before.key, before);
    processes.set(key, {
      key: `process ${key} ${entry.time}`,
      lane: 'processes',
      from: time - ms,
      until: isBad || event === 'ended' ? time : undefined,
      label: describeEntry(entry),
      shortLabel: shortenLabel(entry),
      tone: isBad ? 'bad' : 'plain',
      entry,
      related: [entry],
    });
    return;
  }
  processes.set(key, {
    ...before,
    until: event === 'ended' ? time : before.until,
    tone: isBad ? 'bad' : before.tone,
    related: [...before.related, entry],
  });
}
