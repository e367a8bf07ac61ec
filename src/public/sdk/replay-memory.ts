/**
 * Which tokens have been used. Give your own where several processes answer for one audience, over a store they share:
 * a token is good once in all of them, not once in each.
 */
export interface ReplayMemory {
  /** Whether the id is new. It has to be kept until that moment (milliseconds since 1970). */
  remember(id: string, until: number, now: number): 'new' | 'seen' | 'full' | Promise<'new' | 'seen' | 'full'>;
}

/**
 * Ids are kept until their tokens have expired. When the memory is full of live ones, further tokens are refused:
 * to forget one would allow it a second time.
 */
export function createReplayMemory(limit = 250_000): ReplayMemory {
  const seen = new Map<string, number>();

  function forgetExpired(now: number): void {
    // Tokens live equally long, so the order of arrival is nearly that of expiry.
    for (const [id, until] of seen) {
      if (until > now) break;
      seen.delete(id);
    }
  }

  return {
    remember(id, until, now) {
      forgetExpired(now);
      const kept = seen.get(id);
      if (kept !== undefined && kept > now) return 'seen';
      if (seen.size >= limit) return 'full';
      seen.delete(id);
      seen.set(id, until);
      return 'new';
    },
  };
}
