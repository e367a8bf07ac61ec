import { AmbitError } from '../errors.ts';

/** How fast requests may come that no quota counts: lists, pings, prompts, resources, notifications. */
export interface RequestPace {
  /** Takes one for a session or a user; throws QUOTA_EXCEEDED when they come too fast. */
  take(whose: string): void;
}

export interface RequestRateOptions {
  /** Most calls of tools a minute; undefined where they are not bounded. */
  readonly callsPerMinute: () => number | undefined;
  /** Only differences of it count. */
  readonly now?: () => number;
}

const minPerMinute = 6000;
const minuteMs = 60_000;
const minSweepSize = 1024;

/**
 * As many as there may be calls of tools, and never fewer than 6000 a minute; a minute's may come at once. Each process
 * counts for itself, in memory: to ask the store would cost more than most of these requests.
 */
export function createRequestPace({ callsPerMinute, now = () => performance.now() }: RequestRateOptions): RequestPace {
  /** When the last of those that came would have come at an even pace. */
  const paidUntil = new Map<string, number>();
  let sweepAt = minSweepSize;

  /** Whoever has been slow enough is not remembered. */
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
    what: `The session may make ${perMinute} requests a minute beside its calls of tools, and has.`,
    hint: `Ask again in ${Math.ceil(waitMs / 1000)} s.`,
    rule: 'session.requests',
    retryAfterMs: Math.ceil(waitMs),
  });
}
