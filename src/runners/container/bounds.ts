import type { Bounds } from '../limits/limiter.ts';
import type { Limits } from '../limits/limits.ts';
import { overLimit } from '../limits/over-limit.ts';
import { readProcess } from '../process-table.ts';
import { descendantsOf, usageOf } from '../usage.ts';

/** The engine keeps the limits, or else Ambit looks from time to time. `first` is the first process inside, seen from here. */
export function boundsOf(limits: Limits, first: number | undefined, byEngine: boolean): Bounds {
  const parentNow = () => (first === undefined ? undefined : readProcess(first)?.parent);
  const monitor = parentNow();
  return {
    inside: (program) => [...program],
    outside: (command, args) => ({ command, args, env: {} }),
    async admit() {},
    check(_, processes) {
      // Engines find out after 20 s that a container is alone, and until then nobody hears it.
      const parent = parentNow();
      if (monitor !== undefined && parent !== undefined && parent !== monitor)
        return 'what kept its container was killed';
      if (byEngine || first === undefined) return undefined;
      const table = processes();
      const own = table.filter(({ pid }) => pid === first);
      return overLimit(usageOf([...own, ...descendantsOf(table, first)]), limits);
    },
    refusals: () => undefined,
  };
}
