import { until } from '../sandbox/tagged-processes.ts';

/** Waits until nothing is left; the error names what still is. */
export function waitUntilEmpty(list: () => readonly unknown[], ms: number): Promise<number> {
  return until(
    () => list().length === 0,
    ms,
    () => `still there: ${list().join(', ')}`,
  );
}

/** Waits until a count is at most this. */
export function waitUntilAtMost(count: () => number, limit: number, ms: number): Promise<number> {
  return until(
    () => count() <= limit,
    ms,
    () => `${count()} instead of ${limit}`,
  );
}

/** Waits until a count is exactly this. */
export function waitForCount(count: () => number, expected: number, ms: number): Promise<number> {
  return until(
    () => count() === expected,
    ms,
    () => `${count()} instead of ${expected}`,
  );
}
