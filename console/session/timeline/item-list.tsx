import { useSignal } from '@preact/signals';
import { Badge } from '../../parts/badge.tsx';
import { Button } from '../../parts/button.tsx';
import { formatInstant, formatTime } from '../../parts/format.ts';
import { Text } from '../../parts/text.tsx';
import { lanes, type TimelineItem } from './place-items.ts';

const firstRows = 50;

/** Every item of the timeline as text, the newest first. */
export function ItemList({
  items,
  onSelect,
}: {
  readonly items: readonly TimelineItem[];
  readonly onSelect: (item: TimelineItem) => void;
}) {
  const shown = useSignal(firstRows);
  return (
    <>
      <ol class="item-list">
        {items.slice(0, shown.value).map((item) => (
          <li key={item.key}>
            <time class="muted" dateTime={formatInstant(item.from)} title={formatInstant(item.from)}>
              {formatTime(item.from)}
            </time>
            <Badge tone={item.tone}>{lanes.find(({ name }) => name === item.lane)?.noun}</Badge>
            <button type="button" onClick={() => onSelect(item)}>
              <Text value={item.label.slice(0, 300)} />
            </button>
          </li>
        ))}
      </ol>
      {items.length > shown.value && (
        <Button
          onClick={() => {
            shown.value += firstRows * 4;
          }}
        >
          Show more of {items.length} events
        </Button>
      )}
    </>
  );
}
