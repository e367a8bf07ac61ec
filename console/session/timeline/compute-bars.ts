import type { TimelineItem } from './place-items.ts';

/** An item, or several that are too close to be drawn apart. */
export interface Bar {
  readonly key: string;
  /** Pixels from the start of the lane. */
  readonly left: number;
  readonly width: number;
  readonly row: number;
  readonly items: readonly TimelineItem[];
}

const minWidth = 6;
const maxRows = 6;
/** Processes run for long, so no shorter time would draw them apart. */
const maxProcessRows = 24;
/** With so many items in a lane, all that touch are drawn as one. */
const joinFrom = 120;

/**
 * Computes the bars of a lane. Bars are never thinner than 6 px. Those that overlap stand below each other; where no row
 * is free, items are drawn as one bar, so that no bar covers another.
 */
export function computeBars(
  items: readonly TimelineItem[],
  from: number,
  until: number,
  width: number,
): readonly Bar[] {
  const scale = width / Math.max(1, until - from);
  const placed = items
    .filter((item) => overlapsSpan(item, from, until))
    .map((item) => {
      const left = Math.min(Math.max(0, (item.from - from) * scale), width - minWidth);
      const right = Math.min(width, ((item.until ?? until) - from) * scale);
      return { item, left, right: Math.max(left + minWidth, right) };
    })
    .sort((one, other) => one.left - other.left);
  const most = items[0]?.lane === 'processes' ? maxProcessRows : maxRows;
  const rowCount = placed.length > joinFrom ? 1 : most;
  /** The last bar of each row. */
  const rows: Bar[] = [];
  const bars = new Map<string, Bar>();
  for (const { item, left, right } of placed) {
    const free = rows.findIndex((last) => last.left + last.width + 1 <= left);
    const isNew = free !== -1 || rows.length < rowCount;
    const row = free !== -1 ? free : isNew ? rows.length : rowCount - 1;
    const joined = isNew ? undefined : rows[row];
    const end = Math.max(right, joined === undefined ? 0 : joined.left + joined.width);
    const bar: Bar =
      joined === undefined
        ? { key: item.key, left, width: right - left, row, items: [item] }
        : { ...joined, width: end - joined.left, items: [...joined.items, item] };
    rows[row] = bar;
    bars.set(bar.key, bar);
  }
  return [...bars.values()];
}

export function overlapsSpan(item: TimelineItem, from: number, until: number): boolean {
  return item.from <= until && (item.until ?? until) >= from;
}
