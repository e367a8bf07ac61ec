import { until } from '../sandbox/tagged-processes.ts';

/** Waits until nothing is left; the error names what still is. */
export function waitUntilEmpty(list: () => readonly unknown[], ms: number): Promise<number> {
  return until(
    () => list().length === 0,
    ms,
    () => `still there: ${list().join(', ')}`,
  );
}
