/** Creates a token bucket for messages of an upstream, with a burst of two seconds. */
export function createRateLimit(perSecond: number, now: () => number = Date.now) {
  const burst = perSecond * 2;
  let tokens = burst;
  let filledAt = now();
  return {
    admit(): boolean {
      if (tokens < 1) {
        const at = now();
        tokens = Math.min(burst, tokens + ((at - filledAt) / 1000) * perSecond);
        filledAt = at;
        if (tokens < 1) return false;
      }
      tokens--;
      return true;
    },
    /** Allows a whole burst again. */
    refill(): void {
      tokens = burst;
    },
  };
}
