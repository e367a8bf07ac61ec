import type { Bounds } from '../limits/limiter.ts';
import { readProcess } from '../processes/process-table.ts';

/** As the bounds, for a container that is also ended when nobody would hear it any more. `first` is the first process inside. */
export function watchingMonitor(bounds: Bounds, first: number): Bounds {
  const parentNow = () => readProcess(first)?.parent;
  const monitor = parentNow();
  return {
    ...bounds,
    check(pid, processes) {
      // Engines find out after 20 s that a container is alone, and until then nobody hears it.
      const parent = parentNow();
      if (monitor !== undefined && parent !== undefined && parent !== monitor)
        return 'what kept its container was killed';
      return bounds.check(pid, processes);
    },
  };
}

/** For what Ambit neither bounds nor looks at. */
export const unbounded: Bounds = {
  inside: (program) => [...program],
  outside: (command, args) => ({ command, args, env: {} }),
  async admit() {},
  check: () => undefined,
  refusals: () => undefined,
  release() {},
};
