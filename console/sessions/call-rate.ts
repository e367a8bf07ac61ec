import { onEvent } from '../api/events.ts';
import { ageRecent, liveSessions } from './live-sessions.ts';

interface Sample {
  readonly from: number;
  readonly rate: number;
}

const windowMs = 60_000;
/** The slots of ten seconds that make a minute. */
const minuteSlots = 6;
/** The gateway counts the calls of about a second, and reports their number only when it has changed. */
const reportMs = 1000;

let samples: readonly Sample[] = [];
/** The rate before the first sample; undefined until it has been estimated. */
let earlier: number | undefined;

onEvent((type, data) => {
  if (type === 'resync') [samples, earlier] = [[], undefined];
  if (type !== 'gateway') return;
  const from = Date.now() - reportMs;
  const { callsPerSecond: rate } = data as { readonly callsPerSecond: number };
  const firstNeeded = samples.findLastIndex((sample) => sample.from <= from - windowMs);
  samples = [...samples.slice(Math.max(0, firstNeeded)), { from, rate }];
});

/**
 * Computes the calls per second of the gateway, on average over the last minute. What happened before this page was opened
 * is estimated from the live sessions. Undefined until they are known.
 */
export function computeCallRate(now: number): number | undefined {
  const sessions = liveSessions.value;
  if (sessions === undefined) return undefined;
  earlier ??= sessions.reduce((sum, { activity }) => sum + countLastMinute(activity, now), 0) / (windowMs / 1000);
  const start = now - windowMs;
  let [calls, until] = [0, now];
  for (const { from, rate } of samples.toReversed()) {
    const begin = Math.min(until, Math.max(from, start));
    calls += rate * (until - begin);
    until = begin;
  }
  return (calls + earlier * (until - start)) / windowMs;
}

function countLastMinute(activity: Parameters<typeof ageRecent>[0] | null, now: number): number {
  if (activity === null) return 0;
  return ageRecent(activity, now)
    .slice(-minuteSlots)
    .reduce((sum, count) => sum + count, 0);
}
