import { expect, test } from 'vitest';
import { computeBars } from '../../console/session/timeline/compute-bars.ts';
import type { TimelineItem } from '../../console/session/timeline/place-items.ts';

const item = (from: number, until: number | undefined, key: string): TimelineItem => ({
  key,
  lane: 'calls',
  from,
  until,
  label: key,
  shortLabel: key,
  tone: 'plain',
  entry: { time: '', kind: 'call' },
  related: [],
});
const long = Array.from({ length: 10 }, (_, n) => item(n * 1000, 60_000 + n, `long ${n}`));
const burst = Array.from({ length: 30 }, (_, n) => item(60_000 + n, 60_005 + n, `burst ${n}`));
const many = Array.from({ length: 300 }, (_, n) => item(n * 250, n * 250 + 9, `many ${n}`));
const running = Array.from({ length: 6 }, (_, n) => item(90_000, undefined, `running ${n}`));

test.each(Object.entries({ long, burst, many, running, all: [...long, ...burst, ...many, ...running] }))(
  'U1: no bar of a lane covers another, and each item is in one: %s',
  (_, items) => {
    const bars = computeBars(items, 0, 100_000, 600);
    expect(bars.flatMap((bar) => bar.items.map(({ key }) => key)).sort()).toEqual(items.map(({ key }) => key).sort());
    for (const bar of bars) {
      expect(bar.width).toBeGreaterThanOrEqual(6);
      const isCovered = ({ key, row, left, width }: typeof bar) =>
        key !== bar.key && row === bar.row && left < bar.left + bar.width && bar.left < left + width;
      expect(bars.filter(isCovered)).toEqual([]);
    }
  },
);
