import { effect } from '@preact/signals';
import { useEffect, useLayoutEffect, useMemo } from 'preact/hooks';
import { isPaused } from '../api/events.ts';
import { useRequest } from '../api/use-request.ts';
import { route, setQuery } from '../frame/route.ts';
import { Button } from '../parts/button.tsx';
import { View } from '../parts/card.tsx';
import { formatCount, plural } from '../parts/format.ts';
import { Notice } from '../parts/notice.tsx';
import { SameData } from '../parts/same-data.tsx';
import { signedIn } from '../sign-in/signed-in.ts';
import { filterNames, hasFilters, keyOfFilters, type Query, writeCommand, writePath } from './journal-filter.ts';
import { JournalFilters } from './journal-filters.tsx';
import { createJournalLines, type JournalLines } from './journal-lines.ts';
import { JournalList } from './journal-list.tsx';
import './journal.css';

const tailMs = 2000;
const newsMs = 5000;
const maxKeptMs = 600_000;

/** The list that was shown last. It comes back with its lines when the reader returns to the same filters. */
let kept: { readonly key: string; readonly lines: JournalLines; leftAt: number; scroll: number } | undefined;

/** Nothing of one sign-in is shown to the next. */
effect(() => {
  if (signedIn.value !== undefined) return;
  kept = undefined;
});

/** Everything that happened: calls, changes and refusals, with filters that stay in the address. */
export function Journal() {
  const { query } = route.value;
  const key = keyOfFilters(query);
  const isTailing = query.get('tail') === 'on';
  const lines = useKeptLines(key, query);
  useTail(lines, isTailing);
  useNews(lines, isTailing);
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
      <News lines={lines} />
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

/** Says that lines were written that the list does not show yet. */
function News({ lines }: { readonly lines: JournalLines }) {
  const { count, isMore } = lines.unseen.value;
  // The element is always there, so that screen readers announce what appears in it.
  return (
    <div class="journal-news" role="status">
      {count > 0 && (
        <Notice>
          <p>
            {isMore ? `More than ${plural(count, 'new line')}.` : `${plural(count, 'new line')}.`}{' '}
            <button type="button" class="text-more" onClick={() => void lines.loadNewer()}>
              {count === 1 ? 'Show it' : 'Show them'}
            </button>
          </p>
        </Notice>
      )}
    </div>
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

/** Without the live tail, counts the lines that were written since. */
function useNews(lines: JournalLines, isTailing: boolean): void {
  const isOn = !isTailing && !isPaused.value;
  useEffect(() => {
    if (!isOn) return;
    const count = () => {
      if (document.visibilityState === 'visible') void lines.countNewer();
    };
    const timer = setInterval(count, newsMs);
    document.addEventListener('visibilitychange', count);
    return () => {
      clearInterval(timer);
      document.removeEventListener('visibilitychange', count);
    };
  }, [lines, isOn]);
}
