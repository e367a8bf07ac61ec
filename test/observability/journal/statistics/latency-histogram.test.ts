import fc from 'fast-check';
import { expect, test } from 'vitest';
import {
  addToHistogram,
  bucketCount,
  estimateQuantile,
  findBucket,
  mergeHistogram,
  spreadHistogram,
} from '../../../../src/observability/journal/statistics/latency-histogram.ts';
import { counts } from '../../../proof.ts';

test('a quantile is at most 5 % away from the duration at that rank, also after histograms were merged', () => {
  const durations = fc.array(
    fc.oneof(
      fc.nat(100_000).map((n) => n / 100),
      fc.double({ min: 0, max: 6e8, noNaN: true }),
    ),
    {
      minLength: 1,
      maxLength: 300,
    },
  );
  fc.assert(
    fc.property(durations, durations, fc.constantFrom(0.5, 0.9, 0.99), (some, more, part) => {
      const [one, other] = [some, more].map((list) => {
        const histogram: number[] = [];
        for (const ms of list) addToHistogram(histogram, findBucket(ms));
        return histogram;
      }) as [number[], number[]];
      mergeHistogram(one, other);
      const buckets = one.filter((_, i) => i % 2 === 0);
      expect(buckets).toEqual([...new Set(buckets)].sort((a, b) => a - b));
      const spread = new Float64Array(bucketCount);
      spreadHistogram(spread, one);
      const all = [...some, ...more].sort((a, b) => a - b);
      const exact = all[Math.ceil(all.length * part) - 1] as number;
      const estimate = estimateQuantile(spread, part) as number;
      expect(Math.abs(estimate - exact)).toBeLessThanOrEqual(Math.max(0.01, exact * 0.05));
    }),
    { numRuns: counts(200, 20_000) },
  );
});

test('there is no quantile of nothing, and a duration beyond the last bucket counts in it', () => {
  expect(estimateQuantile(new Float64Array(bucketCount), 0.5)).toBeNull();
  expect(findBucket(Number.MAX_VALUE)).toBe(bucketCount - 1);
  expect([findBucket(0), findBucket(-1), findBucket(Number.NaN)]).toEqual([0, 0, 0]);
});
