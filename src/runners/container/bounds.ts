import type { Bounds } from '../limits/limiter.ts';
import type { Limits } from '../limits/limits.ts';
import { overLimit } from '../limits/over-limit.ts';
import { descendantsOf, usageOf } from '../usage.ts';

/** The engine keeps the limits, or, where the first process inside is named, Ambit looks from time to time. */
export function boundsOf(limits: Limits, watched: number | undefined): Bounds {
  return {
    inside: (program) => [...program],
    outside: (command, args) => ({ command, args, env: {} }),
    async admit() {},
    check(_, processes) {
      if (watched === undefined) return undefined;
      const table = processes();
      const own = table.filter(({ pid }) => pid === watched);
      return overLimit(usageOf([...own, ...descendantsOf(table, watched)]), limits);
    },
    refusals: () => undefined,
  };
}
