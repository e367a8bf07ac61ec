/**
 * Durations in buckets whose bounds grow by 8 %. A sparse histogram is a list of pairs: a bucket and the number of
 * durations in it, in the order of the buckets.
 */
export type LatencyHistogram = number[];

const growth = 1.08;
const logGrowth = Math.log(growth);
/** The upper bound of the first bucket. The journal rounds durations to this. */
const firstMs = 0.01;
/** The last bucket begins at more than a week. */
export const bucketCount = 326;

/** Finds the bucket of a duration in milliseconds. */
export function findBucket(ms: number): number {
  if (!(ms > firstMs)) return 0;
  return Math.min(bucketCount - 1, Math.ceil(Math.log(ms / firstMs) / logGrowth - 1e-9));
}

/** Adds durations of one bucket to a sparse histogram. */
export function addToHistogram(histogram: LatencyHistogram, bucket: number, count = 1): void {
  let at = 0;
  while (at < histogram.length && (histogram[at] as number) < bucket) at += 2;
  if (histogram[at] === bucket) (histogram[at + 1] as number) += count;
  else histogram.splice(at, 0, bucket, count);
}

/** Adds all durations of a histogram to another one. */
export function mergeHistogram(into: LatencyHistogram, from: readonly number[]): void {
  for (let at = 0; at < from.length; at += 2) addToHistogram(into, from[at] as number, from[at + 1]);
}

/** Adds all durations of a sparse histogram to one with a number for each bucket. */
export function spreadHistogram(into: Float64Array, from: readonly number[]): void {
  for (let at = 0; at < from.length; at += 2) {
    const bucket = from[at] as number;
    into[bucket] = (into[bucket] ?? 0) + (from[at + 1] as number);
  }
}

/** Estimates the duration at a part of all durations, such as 0.99, to 4 %. Null if there are none. */
export function estimateQuantile(counts: Float64Array, part: number): number | null {
  const total = counts.reduce((sum, count) => sum + count, 0);
  if (total === 0) return null;
  const rank = Math.max(1, Math.ceil(total * part));
  let seen = 0;
  const bucket = counts.findIndex((count) => {
    seen += count;
    return seen >= rank;
  });
  if (bucket <= 0) return firstMs;
  // The value with the same relative distance from both bounds.
  const middle = (2 * firstMs * growth ** bucket) / (1 + growth);
  return Math.max(firstMs, Number(middle.toPrecision(3)));
}
