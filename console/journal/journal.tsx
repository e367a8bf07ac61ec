import { effect, useSignal } from '@preact/signals';
import { useEffect, useLayoutEffect, useMemo } from 'preact/hooks';
import { isPaused } from '../api/events.ts';
import { useRequest } from '../api/use-request.ts';
import { route, setQuery } from '../frame/route.ts';
import { Button } from '../parts/button.tsx';
import { View } from '../parts/card.tsx';
import { formatCount } from '../parts/format.ts';
import { SameData } from '../parts/same-data.tsx';
import { signedIn } from '../sign-in/signed-in.ts';
import { filterNames, hasFilters, keyOfFilters, type Query, writeCommand, writePath } from './journal-filter.ts';
import { JournalFilters } from './journal-filters.tsx';
import { createJournalLines, type JournalLines } from './journal-lines.ts';
import { JournalList } from './journal-list.tsx';
import './journal.css';

const tailMs = 2000;
const maxKeptMs = 600_000;

/** The list that was shown last. It comes back with its lines when the reader returns to the same filters. */
let kept: { readonly key: string; readonly lines: JournalLines; leftAt: number; scroll: number } | undefined;
/** The filters that were used last. They come back when the address of the view names none. */
let lastQuery: Readonly<Record<string, string>> = {};

/** Nothing of one sign-in is shown to the next. */
effect(() => {
  if (signedIn.value !== undefined) return;
  kept = undefined;
  lastQuery = {};
});

/** Everything that happened: calls, changes and refusals, with filters that stay in the address. */
export function Journal() {
  const isReady = useSignal(false);
  useLayoutEffect(() => {
    if (!hasFilters(route.peek().query)) setQuery(lastQuery);
    isReady.value = true;
  }, []);
  return isReady.value ? <FilteredJournal /> : <View title="Journal">{null}</View>;
}

function FilteredJournal() {
  const { query } = route.value;
  const key = keyOfFilters(query);
  const isTailing = query.get('tail') === 'on';
  const lines = useKeptLines(key, query);
  useTail(lines, isTailing);
  useEffect(() => {
    lastQuery = Object.fromEntries([...query].filter(([name]) => name !== 'from'));
  }, [query]);
  const names = useSessionNames();
  const path = useMemo(() => writePath(query, Date.now()), [key]);
  return (
    <View
      title="Journal"
      aside={<LineCount lines={lines} />}
      actions={
        <>
          {hasFilters(query) && (
            <Button onClick={() => setQuery(Object.fromEntries([...filterNames, 'from'].map((name) => [name, ''])))}>
              Clear filters
            </Button>
          )}
          <Button isPressed={isTailing} onClick={() => setQuery({ tail: isTailing ? '' : 'on' })}>
            {isTailing ? (isPaused.value ? 'Live tail: paused' : 'Live tail: on') : 'Live tail'}
          </Button>
        </>
      }
    >
      <JournalFilters lines={lines} sessionNames={names} />
      <JournalList lines={lines} sessionNames={names} />
      <SameData command={writeCommand(query, isTailing)} path={path} />
    </View>
  );
}

/** Reads the names of live sessions and of those that ended lately: the lines have only ids. */
function useSessionNames(): ReadonlyMap<string, string> {
  const live = useRequest('GET /api/v1/sessions').answer.value;
  const ended = useRequest('GET /api/v1/sessions/ended').answer.value;
  return useMemo(() => {
    const sessions = [...(ended?.sessions ?? []), ...(live?.sessions ?? [])];
    return new Map(sessions.map(({ id, name }) => [id, name ?? ''] as const));
  }, [live, ended]);
}

function LineCount({ lines }: { readonly lines: JournalLines }) {
  const count = lines.lines.value.length;
  return (
    <span role="status">
      {formatCount(count)}
      {lines.hasOlder.value ? '+' : ''} {count === 1 ? 'line' : 'lines'}
    </span>
  );
}

/** Returns the list for the filters: the one that was shown last if they are the same, otherwise a new one. */
function useKeptLines(key: string, query: Query): JournalLines {
  const lines = useMemo(() => {
    const isFresh = kept !== undefined && kept.key === key && Date.now() - kept.leftAt < maxKeptMs;
    if (kept === undefined || !isFresh) {
      kept = { key, lines: createJournalLines(query), leftAt: Date.now(), scroll: 0 };
    }
    return kept.lines;
  }, [key]);
  useEffect(() => {
    const mine = kept;
    if (lines.lines.peek().length === 0) void lines.loadOlder();
    else void lines.loadNewer();
    return () => {
      lines.stop();
      if (mine !== undefined) mine.leftAt = Date.now();
    };
  }, [lines]);
  useEffect(() => {
    const y = kept?.scroll ?? 0;
    // The frame moves to the heading first.
    const timer = setTimeout(() => y > 0 && scrollTo({ top: y }), 50);
    return () => clearTimeout(timer);
  }, []);
  useLayoutEffect(
    () => () => {
      if (kept !== undefined) kept.scroll = scrollY;
    },
    [],
  );
  return lines;
}

/** Asks for newer lines again and again, unless the reader has paused everything. */
function useTail(lines: JournalLines, isTailing: boolean): void {
  const isOn = isTailing && !isPaused.value;
  useEffect(() => {
    if (!isOn) return;
    void lines.loadNewer();
    const timer = setInterval(() => {
      if (document.visibilityState === 'visible') void lines.loadNewer();
    }, tailMs);
    return () => clearInterval(timer);
  }, [lines, isOn]);
}
