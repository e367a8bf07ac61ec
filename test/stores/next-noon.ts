const dayMs = 86_400_000;

/**
 * Noon of the next day, UTC: the time at which the clock of a store test starts. Some totals are counted by the day, so a
 * clock that starts shortly before midnight would lose them. It lies ahead, because Redis expires keys by the real time.
 */
export const nextNoon = (): number => (Math.floor(Date.now() / dayMs) + 1.5) * dayMs;
