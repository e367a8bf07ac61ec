export interface RateLimit {
  admit(): boolean;
  /** A whole burst may come again. */
  refill(): void;
}

/** A bucket of tokens: what an upstream may say by itself in a second, with a burst of twice that. */
export function createRateLimit(perSecond: number, now: () => number = Date.now): RateLimit {
  const burst = perSecond * 2;
  let tokens = burst;
  let filledAt = now();
  return {
    admit() {
      if (tokens < 1) {
        const at = now();
        tokens = Math.min(burst, tokens + ((at - filledAt) / 1000) * perSecond);
        filledAt = at;
        if (tokens < 1) return false;
      }
      tokens--;
      return true;
    },
    refill() {
      tokens = burst;
    },
  };
}
