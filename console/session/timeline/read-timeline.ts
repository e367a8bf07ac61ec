import { type Signal, useSignal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import { isPaused } from '../../api/events.ts';
import { request } from '../../api/request.ts';
import type { JournalEntry } from '../../journal/describe-entry.ts';
import { addSessionNames } from '../../journal/entry-fields.ts';
import { isAboutChild, sessionEnds } from './place-items.ts';

/** The journal lines of a session in a span of time. */
export interface TimelineEntries {
  readonly entries: Signal<readonly JournalEntry[]>;
  readonly error: Signal<Error | undefined>;
  readonly isLoading: Signal<boolean>;
  /** True if the span has more lines than are shown. */
  readonly isCut: Signal<boolean>;
}

interface Span {
  readonly id: string;
  /** The time at which the session was opened. */
  readonly opened: number;
  /** Milliseconds since 1970. */
  readonly from: number;
  /** Undefined for a span that goes on. */
  readonly until: number | undefined;
  /** New lines are looked for at once when this value changes. */
  readonly after?: unknown;
}

const pageSize = 200;
const maxEntries = 3000;
const maxPages = 60;
/** The starts and ends of processes and children are read from the whole life of the session, up to this many pages. */
const maxLifetimePages = 5;
const pollMs = 2000;
/** Lines of several processes may be written a little late. */
const lateMs = 1500;
/** The first process may start just before the session is recorded. */
const earlyMs = 1000;

/** Reads the lines of the span, and then the new ones while the span goes on. */
export function useTimelineEntries({ id, opened, from, until, after }: Span): TimelineEntries {
  const entries = useSignal<readonly JournalEntry[]>([]);
  const error = useSignal<Error | undefined>(undefined);
  const isLoading = useSignal(true);
  const isCut = useSignal(false);
  const latest = useRef({ from, until });
  latest.current = { from, until };
  // A span that moves on with the time is read again only when it begins earlier.
  const start = useRef(from);
  if (until !== undefined || from < start.current) start.current = from;
  const poll = useRef<() => Promise<void>>(undefined);

  useEffect(() => {
    const controller = new AbortController();
    let known: ReadonlyMap<string, JournalEntry> = new Map();
    /** Starts and ends of processes and children: they may be older than the span in which the process or child lives. */
    const lifetimes = new Map<string, JournalEntry>();
    let newest = '';
    const add = (found: readonly JournalEntry[]) => {
      const fresh = found.map((entry) => [JSON.stringify(entry), entry] as const).filter(([key]) => !known.has(key));
      // Of lines with the same time, the later ones stand first: new lines before the known ones, older pages behind them.
      const isNewer = newest !== '' && fresh.every(([, { time }]) => time >= newest);
      known = new Map(isNewer ? [...fresh, ...known] : [...known, ...fresh]);
      for (const { time } of found) if (time > newest) newest = time;
      addSessionNames(found.flatMap(readName));
      const start = new Date(latest.current.from).toISOString();
      const sorted = [...known.values()].sort(newestFirst);
      isCut.value = isCut.value || sorted.length > maxEntries;
      const shown = sorted.slice(0, maxEntries);
      const older = [...lifetimes].filter(([key]) => !known.has(key)).map(([, entry]) => entry);
      entries.value = [...shown, ...older].sort(newestFirst);
      if (known.size <= maxEntries + pageSize) return;
      known = new Map([...known].filter(([, { time }]) => time >= start));
    };
    const readSpan = async (since: number) => {
      const span = { since: new Date(since).toISOString(), ...spanEnd(latest.current.until) };
      isCut.value = (await readPages({ ...span, session: id }, controller.signal, add)) || isCut.value;
      await readPages({ ...span, kind: 'session', words: id }, controller.signal, add);
      // What operators did to the session, such as ending it.
      await readPages({ ...span, kind: 'gateway', words: id }, controller.signal, add);
    };
    const readEvents = async (events: Iterable<string>, about: Query, isWanted: (entry: JournalEntry) => boolean) => {
      const span = { since: new Date(opened - earlyMs).toISOString(), ...spanEnd(latest.current.until) };
      let count = 0;
      const keep = (found: readonly JournalEntry[]) => {
        for (const entry of found.filter(isWanted)) {
          lifetimes.set(JSON.stringify(entry), entry);
          count += 1;
        }
      };
      for (const event of events)
        await readPages({ ...span, ...about, event }, controller.signal, keep, maxLifetimePages);
      return count;
    };
    const readLifetimes = async () => {
      await readEvents(['started', 'ended'], { session: id, kind: 'process' }, () => true);
      const aboutChildren = [{ kind: 'session', words: id }, (entry: JournalEntry) => isAboutChild(entry, id)] as const;
      if ((await readEvents(['created'], ...aboutChildren)) > 0) await readEvents(sessionEnds, ...aboutChildren);
    };
    const run = async (since: number) => {
      try {
        await readSpan(since);
        error.value = undefined;
      } catch (failure) {
        if (!controller.signal.aborted) error.value = failure as Error;
      }
    };
    entries.value = [];
    isCut.value = false;
    isLoading.value = true;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const pollLater = () => {
      clearTimeout(timer);
      if (until === undefined && !controller.signal.aborted) timer = setTimeout(() => void poll.current?.(), pollMs);
    };
    poll.current = async () => {
      clearTimeout(timer);
      if (document.visibilityState === 'visible' && !isPaused.peek()) {
        await run(newest === '' ? latest.current.from : Date.parse(newest) - lateMs);
      }
      pollLater();
    };
    void readLifetimes()
      .catch(() => {})
      .then(() => run(from))
      .then(() => {
        if (controller.signal.aborted) return;
        isLoading.value = false;
        pollLater();
      });
    return () => {
      controller.abort();
      clearTimeout(timer);
    };
  }, [id, until, start.current]);

  const isFirst = useRef(true);
  useEffect(() => {
    if (!isFirst.current && until === undefined) void poll.current?.();
    isFirst.current = false;
  }, [after]);
  return { entries, error, isLoading, isCut };
}

/** Reads the name of a child session from the line about its opening. */
function readName({ event, sessionId, name }: JournalEntry): { id: string; name: string }[] {
  if (event !== 'created' || typeof sessionId !== 'string' || typeof name !== 'string') return [];
  return [{ id: sessionId, name }];
}

function newestFirst(one: JournalEntry, other: JournalEntry): number {
  return one.time === other.time ? 0 : one.time < other.time ? 1 : -1;
}

function spanEnd(until: number | undefined): { until?: string } {
  return until === undefined ? {} : { until: new Date(until).toISOString() };
}

type Query = Readonly<Record<string, string>>;

/** Reads pages until the span is read or there are enough lines. Returns true if there are more. */
async function readPages(
  query: Query,
  signal: AbortSignal,
  add: (found: readonly JournalEntry[]) => void,
  most = maxPages,
): Promise<boolean> {
  let [before, count] = [undefined as string | undefined, 0];
  for (let page = 0; page < most; page++) {
    const asked = { ...query, limit: pageSize, ...(before === undefined ? {} : { before }) };
    const { entries, next } = await request('GET /api/v1/journal', { query: asked as never, signal });
    add(entries);
    count += entries.length;
    if (next === null) return false;
    if (count >= maxEntries) return true;
    before = next;
  }
  return true;
}
