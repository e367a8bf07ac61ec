import { useComputed, useSignal } from '@preact/signals';
import { readQuery, setQuery } from '../../frame/route.ts';
import { Button } from '../../parts/button.tsx';
import { Card } from '../../parts/card.tsx';
import { ChoiceFilter, Filters, TextFilter } from '../../parts/filters.tsx';
import { formatTime, now } from '../../parts/format.ts';
import { Empty, ErrorNotice } from '../../parts/notice.tsx';
import { overlapsSpan } from './compute-bars.ts';
import { ItemDialog } from './item-dialog.tsx';
import { ItemList } from './item-list.tsx';
import { Lanes } from './lanes.tsx';
import { type Activity, lanes, placeItems, placeRunningCall, type TimelineItem } from './place-items.ts';
import { useTimelineEntries } from './read-timeline.ts';
import './timeline.css';

const minuteMs = 60_000;
const ranges: readonly (readonly [value: string, label: string, ms: number])[] = [
  ['5m', 'Last 5 minutes', 5 * minuteMs],
  ['', 'Last 15 minutes', 15 * minuteMs],
  ['1h', 'Last hour', 60 * minuteMs],
  ['24h', 'Last 24 hours', 1440 * minuteMs],
  ['all', 'Whole life', Number.POSITIVE_INFINITY],
];

interface TimelineProps {
  readonly id: string;
  /** The time at which the session was opened. */
  readonly since: string;
  /** The time at which it ended; undefined while it lives. */
  readonly until: string | undefined;
  /** What the session does now. */
  readonly activity?: Activity | null;
  /** New lines are looked for at once when this value changes. */
  readonly after?: unknown;
}

/** What happened in a session: lanes over time, and below them every event as text. */
export function Timeline({ id, since, until, activity = null, after }: TimelineProps) {
  const span = readSpan(Date.parse(since), until === undefined ? undefined : Date.parse(until));
  const { entries, error, isLoading, isCut } = useTimelineEntries({
    id,
    opened: Date.parse(since),
    from: span.from,
    until: span.end,
    after,
  });
  const selected = useSignal<TimelineItem | undefined>(undefined);
  const items = useComputed(() => placeItems(entries.value, id));
  const end = span.end ?? now.value;
  const running = span.end === undefined && activity !== null ? placeRunningCall(activity) : [];
  // Processes of the whole life have been read.
  const inside = items.value.filter((item) => overlapsSpan(item, span.from, Math.max(end, Date.now())));
  const shown = chooseItems([...running, ...inside], readQuery('only'), readQuery('lane'), readQuery('find'));
  const isZoomed = readQuery('from') !== '';
  const zoom = (from: number, to: number) => setQuery({ from: Math.floor(from), to: Math.ceil(to) });
  return (
    <Card
      title="Timeline"
      aside={
        <span>
          {formatTime(span.from)} to {span.end === undefined ? 'now' : formatTime(span.end)}
        </span>
      }
    >
      <Filters>
        <ChoiceFilter name="range" label="Time" options={ranges.map(([value, label]) => [value, label] as const)} />
        <ChoiceFilter
          name="only"
          label="Show"
          options={[
            ['', 'Everything'],
            ['problems', 'Only refusals and errors'],
            ['open', 'Only what goes on'],
          ]}
        />
        <ChoiceFilter
          name="lane"
          label="Kind"
          options={[['', 'All'], ...lanes.map(({ name, label }) => [name, label] as const)]}
        />
        <TextFilter name="find" label="Text" placeholder="Tool, path" />
        {isZoomed && <Button onClick={() => setQuery({ from: '', to: '' })}>Back to the whole time</Button>}
      </Filters>
      {error.value !== undefined && <ErrorNotice error={error.value} />}
      {isLoading.value && items.value.length === 0 && (
        <p class="loading muted" role="status">
          Loading…
        </p>
      )}
      {!isLoading.value && shown.length === 0 && error.value === undefined && (
        <Empty title="Nothing happened in this time.">
          {until === undefined ? 'Calls appear here as soon as they end.' : 'Choose a longer time.'}
        </Empty>
      )}
      {shown.length > 0 && (
        <>
          <Lanes
            items={shown}
            from={span.from}
            until={end}
            onSelect={(item) => {
              selected.value = item;
            }}
            onZoom={zoom}
          />
          <ItemList
            items={shown}
            onSelect={(item) => {
              selected.value = item;
            }}
          />
        </>
      )}
      {isCut.value && (
        <p class="muted">Only the latest events of this time are shown. Choose a shorter time to see all.</p>
      )}
      {selected.value !== undefined && (
        <ItemDialog
          item={findCurrent(selected.value, [...running, ...items.value])}
          sessionId={id}
          onClose={() => {
            selected.value = undefined;
          }}
        />
      )}
    </Card>
  );
}

/** The times at which a call began differ a little between the event and the line in the journal. */
const sameStartMs = 1000;

/** Finds an item as it is now. A call that was under way is found by its start, because its line came with its end. */
function findCurrent(item: TimelineItem, items: readonly TimelineItem[]): TimelineItem {
  const same = items.find(({ key }) => key === item.key);
  if (same !== undefined || item.until !== undefined || item.lane !== 'calls') return same ?? item;
  const isSameCall = ({ entry, from, shortLabel }: TimelineItem) =>
    entry.kind === 'call' && shortLabel === item.shortLabel && Math.abs(from - item.from) < sameStartMs;
  return items.find(isSameCall) ?? item;
}

/** Reads the span from the address. `end` is undefined while it goes on. */
function readSpan(opened: number, ended: number | undefined): { from: number; end: number | undefined } {
  const [from, to] = [Number(readQuery('from')), Number(readQuery('to'))];
  if (from > 0 && to > from) return { from, end: to };
  const [, , length = 15 * minuteMs] = ranges.find(([value]) => value === readQuery('range')) ?? [];
  const last = ended ?? Math.floor(now.value / 1000) * 1000;
  // The line that says that the session was opened stands just before its first call.
  return { from: Math.max(opened - 1000, last - length), end: ended === undefined ? undefined : ended + 1000 };
}

function chooseItems(
  items: readonly TimelineItem[],
  only: string,
  lane: string,
  find: string,
): readonly TimelineItem[] {
  const text = find.toLowerCase();
  return items.filter(
    (item) =>
      (only !== 'problems' || item.tone !== 'plain') &&
      (only !== 'open' || item.until === undefined) &&
      (lane === '' || item.lane === lane) &&
      (text === '' || item.label.toLowerCase().includes(text)),
  );
}
