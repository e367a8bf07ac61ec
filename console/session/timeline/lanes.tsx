import { useSignal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import { formatTime } from '../../parts/format.ts';
import { makeVisible } from '../../parts/text.tsx';
import { type Bar, computeBars } from './compute-bars.ts';
import { lanes, type TimelineItem } from './place-items.ts';

interface LanesProps {
  readonly items: readonly TimelineItem[];
  readonly from: number;
  readonly until: number;
  readonly onSelect: (item: TimelineItem) => void;
  readonly onZoom: (from: number, until: number) => void;
}

const rowHeight = 18;
const ticks = 4;
const maxLabel = 160;

/** The lanes of the timeline. Arrow keys move between the bars of a lane. */
export function Lanes({ items, from, until, onSelect, onZoom }: LanesProps) {
  const track = useRef<HTMLDivElement>(null);
  const width = useSignal(600);
  useEffect(() => {
    const element = track.current;
    if (element === null) return;
    const observer = new ResizeObserver(() => {
      width.value = element.clientWidth;
    });
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  const used = lanes.filter(({ name }) => items.some(({ lane }) => lane === name));
  return (
    <div class="lanes">
      <div class="lane lane-axis" aria-hidden="true">
        <span />
        <div class="lane-track" ref={track}>
          {Array.from({ length: ticks + 1 }, (_, at) => (
            <span key={at} class="lane-tick" style={{ left: `${(at / ticks) * 100}%` }}>
              {formatTime(from + ((until - from) * at) / ticks)}
            </span>
          ))}
        </div>
      </div>
      {used.map(({ name, label, many }) => {
        const bars = computeBars(
          items.filter(({ lane }) => lane === name),
          from,
          until,
          width.value,
        );
        const rows = Math.max(1, ...bars.map(({ row }) => row + 1));
        return (
          <div key={name} class="lane">
            <span class="lane-label" id={`lane-${name}`}>
              {label}
            </span>
            <ul
              class="lane-track"
              aria-labelledby={`lane-${name}`}
              style={{ height: `${rows * rowHeight + 6}px` }}
              onKeyDown={moveBetweenBars}
            >
              {bars.map((bar, at) => (
                <LaneBar key={bar.key} bar={bar} many={many} isFirst={at === 0} onSelect={onSelect} onZoom={onZoom} />
              ))}
            </ul>
          </div>
        );
      })}
    </div>
  );
}

function LaneBar({
  bar,
  many,
  isFirst,
  onSelect,
  onZoom,
}: {
  readonly bar: Bar;
  readonly many: string;
  readonly isFirst: boolean;
} & Pick<LanesProps, 'onSelect' | 'onZoom'>) {
  const { items, left, width, row } = bar;
  const [first] = items;
  if (first === undefined) return null;
  const label =
    items.length === 1
      ? `${makeVisible(nameItem(first).slice(0, maxLabel))}, ${formatTime(first.from)}`
      : `${items.length} ${many}. Show this part of the timeline`;
  const tone = items.some((item) => item.tone === 'bad')
    ? 'bad'
    : items.some((item) => item.tone === 'warn')
      ? 'warn'
      : 'plain';
  const isRunning = first.lane === 'calls' && items.some((item) => item.until === undefined);
  const open = () => {
    if (items.length === 1) return onSelect(first);
    const start = Math.min(...items.map((item) => item.from));
    const end = Math.max(...items.map((item) => item.until ?? Date.now()));
    onZoom(start - 50, Math.max(end, start + 200) + 50);
  };
  return (
    <li>
      <button
        type="button"
        class={`lane-bar lane-bar-${first.lane} lane-bar-tone-${tone}${isRunning ? ' lane-bar-running' : ''}`}
        style={{ left: `${left}px`, width: `${width}px`, top: `${row * rowHeight + 3}px` }}
        tabIndex={isFirst ? 0 : -1}
        aria-label={label}
        title={label}
        onClick={open}
      >
        {width > 90 ? makeVisible(items.length === 1 ? first.shortLabel.slice(0, maxLabel) : `${items.length}`) : ''}
      </button>
    </li>
  );
}

/** The name for screen readers and speech input contains the words that the bar shows. */
function nameItem({ label, shortLabel }: TimelineItem): string {
  return label.includes(shortLabel) ? label : `${shortLabel}: ${label}`;
}

/** One bar of a lane takes part in the order of the Tab key. The arrow keys move from there. */
function moveBetweenBars(event: KeyboardEvent & { readonly currentTarget: HTMLElement }): void {
  const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  const isEdge = event.key === 'Home' || event.key === 'End';
  if (step === undefined && !isEdge) return;
  const bars = [...event.currentTarget.querySelectorAll('button')];
  const at = bars.indexOf(document.activeElement as HTMLButtonElement);
  const next = event.key === 'Home' ? bars[0] : event.key === 'End' ? bars.at(-1) : bars[at + (step ?? 0)];
  if (next === undefined) return;
  event.preventDefault();
  for (const bar of bars) bar.tabIndex = -1;
  next.tabIndex = 0;
  next.focus();
}
