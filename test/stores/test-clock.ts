const dayMs = 86_400_000;

/**
 * A clock that tests move by hand. It starts at noon (UTC) of the next day: some totals are counted by the day, so a start
 * shortly before midnight would lose them. It lies ahead, because Redis expires keys by the real time.
 */
export function createTestClock() {
  let time = (Math.floor(Date.now() / dayMs) + 1.5) * dayMs;
  const advance = (ms: number): void => {
    time += ms;
  };
  return { now: () => time, advance };
}
