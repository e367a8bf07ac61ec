import { AmbitError } from '../errors.ts';

/** The rate limit for requests that no quota counts: lists, pings, prompts, resources, notifications. */
export interface RequestRateLimit {
  /** Counts a request of a session or a user; throws QUOTA_EXCEEDED when they come too fast. */
  take(whose: string): void;
}

export interface RequestRateOptions {
  /** The limit for calls of tools; undefined where they are not limited. */
  readonly callsPerMinute: () => number | undefined;
  /** A clock of which only differences count. */
  readonly now?: () => number;
}

const minPerMinute = 6000;
const minuteMs = 60_000;
const minSweepSize = 1024;

/**
 * Allows as many requests as calls of tools, and at least 6000 a minute; those of a minute may come at once. Each
 * process counts in memory: asking the store would cost more than most of these requests.
 */
export function createRequestRateLimit({
  callsPerMinute,
  now = () => performance.now(),
}: RequestRateOptions): RequestRateLimit {
  /** The time at which the last request would have come at an even rate. */
  const paidUntil = new Map<string, number>();
  let sweepAt = minSweepSize;

  /** Forgets those whose rate is low enough. */
  function forgetSlow(at: number): void {
    for (const [whose, until] of paidUntil) if (until <= at) paidUntil.delete(whose);
    sweepAt = Math.max(minSweepSize, paidUntil.size * 2);
  }

  return {
    take(whose) {
      const at = now();
      const perMinute = Math.max(minPerMinute, callsPerMinute() ?? 0);
      const each = minuteMs / perMinute;
      const until = Math.max(at, paidUntil.get(whose) ?? 0) + each;
      if (until - at > minuteMs) throw rateExceededError(perMinute, until - at - minuteMs);
      paidUntil.set(whose, until);
      if (paidUntil.size > sweepAt) forgetSlow(at);
    },
  };
}

function rateExceededError(perMinute: number, waitMs: number): AmbitError {
  return new AmbitError('QUOTA_EXCEEDED', {
    what: `The session has reached its limit of ${perMinute} requests per minute, not counting tool calls.`,
    hint: `Ask again in ${Math.ceil(waitMs / 1000)} s.`,
    rule: 'session.requests',
    retryAfterMs: Math.ceil(waitMs),
  });
}
