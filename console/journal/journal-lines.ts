import { type ReadonlySignal, signal } from '@preact/signals';
import { request } from '../api/request.ts';
import type { JournalEntry } from './entry-fields.ts';
import { type JournalPage, type Query, readJournalQuery } from './journal-filter.ts';

/** A line with a number that tells it from all others, also from an equal one. */
export interface Line {
  readonly number: number;
  readonly entry: JournalEntry;
}

interface Unseen {
  readonly count: number;
  readonly isMore: boolean;
}

/** The lines that match the filters, newest first. */
export interface JournalLines {
  readonly lines: ReadonlySignal<readonly Line[]>;
  /** False once the oldest line that matches is shown. */
  readonly hasOlder: ReadonlySignal<boolean>;
  readonly isSearching: ReadonlySignal<boolean>;
  /** The number of requests that the present search has made so far. */
  readonly requests: ReadonlySignal<number>;
  readonly isStopped: ReadonlySignal<boolean>;
  readonly error: ReadonlySignal<Error | undefined>;
  /** The number of damaged lines that were skipped. */
  readonly damaged: ReadonlySignal<number>;
  /** Searches until it has found a screenful, or the search is stopped, or nothing is left. */
  loadOlder(): Promise<void>;
  /** Adds what was written since the newest line. */
  loadNewer(): Promise<void>;
  /** Counts what was written since the newest line, up to a page. */
  countNewer(): Promise<void>;
  /** What `countNewer` found. */
  readonly unseen: ReadonlySignal<Unseen>;
  stop(): void;
  /** Numbers of the lines that show all their fields. */
  readonly opened: ReadonlySignal<ReadonlySet<number>>;
  toggle(number: number): void;
}

const nothingUnseen: Unseen = { count: 0, isMore: false };
const pageSize = 100;
const enough = 50;
const newerPages = 5;
/** While new lines arrive, the oldest ones beyond this number are dropped. They can be loaded again. */
const maxLines = 3000;
/** Several processes write at their own pace, so a line may be older than one before it. */
const slackMs = 5000;
/** The clock of the browser may differ from that of the gateway by this much. */
const clockMs = 300_000;

/** Creates the list of lines for the filters. It asks nothing until something is loaded. */
export function createJournalLines(query: Query): JournalLines {
  const lines = signal<readonly Line[]>([]);
  const hasOlder = signal(true);
  const isSearching = signal(false);
  const isStopped = signal(false);
  const requests = signal(0);
  const damaged = signal(0);
  const error = signal<Error | undefined>(undefined);
  const unseen = signal(nothingUnseen);
  const opened = signal<ReadonlySet<number>>(new Set());
  const conditions = readJournalQuery(query, Date.now());
  let numbers = 0;
  let next: string | undefined;
  /** True from the time that the oldest lines were dropped until the first of them is loaded again. */
  let isDropped = false;
  let controller: AbortController | undefined;
  let isAskingNewer = false;
  /** The time up to which no newer line was left, by the clock of the browser. */
  let completeUntil = Date.now();

  function number(entries: readonly JournalEntry[]): readonly Line[] {
    return entries.map((entry) => ({ number: numbers++, entry }));
  }

  async function loadOlder(): Promise<void> {
    if (isSearching.peek() || !hasOlder.peek()) return;
    const current = new AbortController();
    controller = current;
    isSearching.value = true;
    isStopped.value = false;
    requests.value = 0;
    error.value = undefined;
    const before = lines.peek().length;
    try {
      while (hasOlder.peek() && lines.peek().length < before + enough) {
        const oldest = lines.peek().at(-1)?.entry.time;
        const until = isDropped && oldest !== undefined ? shiftTime(oldest, slackMs) : conditions.until;
        const asked = { ...conditions, until, limit: pageSize, before: next };
        const page = await request('GET /api/v1/journal', { query: asked, signal: current.signal });
        requests.value++;
        keepOlder(page);
      }
    } catch (failure) {
      if (!current.signal.aborted) error.value = failure as Error;
    } finally {
      isSearching.value = false;
    }
  }

  function keepOlder(page: JournalPage): void {
    const known = lines.peek();
    lines.value = [...known, ...number(isDropped ? withoutKnown(page.entries, known) : page.entries)];
    // The first new line shows that all known ones have been passed.
    if (lines.peek().length > known.length) isDropped = false;
    damaged.value += page.unreadable;
    next = page.next ?? undefined;
    hasOlder.value = page.next !== null;
  }

  async function loadNewer(): Promise<void> {
    if (isAskingNewer || isSearching.peek() || conditions.until !== undefined) return;
    isAskingNewer = true;
    try {
      await askNewer();
      unseen.value = nothingUnseen;
      error.value = undefined;
    } catch (failure) {
      error.value = failure as Error;
    } finally {
      isAskingNewer = false;
    }
  }

  async function countNewer(): Promise<void> {
    if (isAskingNewer || isSearching.peek() || conditions.until !== undefined) return;
    const known = lines.peek();
    const asked = { ...conditions, since: findNewerStart(), limit: pageSize };
    // It is asked again soon.
    const page = await request('GET /api/v1/journal', { query: asked }).catch(() => undefined);
    if (page === undefined || known !== lines.peek()) return;
    const count = findLine(page.entries, known);
    unseen.value = { count, isMore: count === page.entries.length && page.next !== null };
  }

  /** The time from which lines may be newer than the list. */
  function findNewerStart(): string {
    const newest = Date.parse(lines.peek()[0]?.entry.time ?? '');
    // A rare line may be old: what was searched already is not searched again.
    const from = Math.max((Number.isNaN(newest) ? 0 : newest) - slackMs, completeUntil - clockMs);
    return [new Date(from).toISOString(), conditions.since ?? ''].sort().at(-1) ?? '';
  }

  async function askNewer(): Promise<void> {
    const startedAt = Date.now();
    const since = findNewerStart();
    const found: JournalEntry[] = [];
    let before: string | undefined;
    for (let pages = 0; pages < newerPages; pages++) {
      const asked = { ...conditions, since, limit: pageSize, before };
      const page: JournalPage = await request('GET /api/v1/journal', { query: asked });
      found.push(...page.entries);
      before = findLine(found, lines.peek()) < found.length ? undefined : (page.next ?? undefined);
      if (before === undefined) break;
    }
    completeUntil = startedAt;
    if (before !== undefined) {
      // More was written than fits: the list begins again with the newest lines.
      next = before;
      isDropped = false;
      hasOlder.value = true;
      lines.value = number(found);
      return;
    }
    const fresh = found.slice(0, findLine(found, lines.peek()));
    if (fresh.length > 0) lines.value = [...number(fresh), ...lines.peek()];
    dropOldest();
  }

  function dropOldest(): void {
    if (lines.peek().length <= maxLines) return;
    lines.value = lines.peek().slice(0, maxLines);
    isDropped = true;
    next = undefined;
    hasOlder.value = true;
  }

  return {
    ...{ lines, hasOlder, isSearching, requests, isStopped, error, damaged, opened, loadOlder, loadNewer },
    ...{ countNewer, unseen },
    stop() {
      isStopped.value = isSearching.peek();
      controller?.abort();
    },
    toggle(line) {
      const changed = new Set(opened.peek());
      if (!changed.delete(line)) changed.add(line);
      opened.value = changed;
    },
  };
}

function shiftTime(instant: string, ms: number): string {
  return new Date(Date.parse(instant) + ms).toISOString();
}

/**
 * Finds the newest known line among lines that were read later. Lines are only appended, so all lines before it are
 * new. Three lines are compared, because a server may write the same line several times in a millisecond.
 */
function findLine(found: readonly JournalEntry[], known: readonly Line[]): number {
  const marks = known.slice(0, 3).map(({ entry }) => JSON.stringify(entry));
  const [first] = marks;
  if (first === undefined) return found.length;
  const texts = found.map((entry) => JSON.stringify(entry));
  const at = texts.findIndex((_, start) => marks.every((mark, i) => (texts[start + i] ?? mark) === mark));
  if (at !== -1) return at;
  // Another process may have put a line between them.
  const alone = texts.indexOf(first);
  return alone === -1 ? found.length : alone;
}

/** Leaves out the entries down to the oldest known line. */
function withoutKnown(found: readonly JournalEntry[], known: readonly Line[]): readonly JournalEntry[] {
  const oldest = known.at(-1)?.entry;
  if (oldest === undefined) return found;
  const mark = JSON.stringify(oldest);
  const at = found.findLastIndex((entry) => JSON.stringify(entry) === mark);
  if (at !== -1) return found.slice(at + 1);
  // Lines may be out of order by less than the slack.
  return found.filter(({ time }) => time < shiftTime(oldest.time, -slackMs));
}
