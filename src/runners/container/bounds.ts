import type { Bounds } from '../limits/limiter.ts';
import type { Limits } from '../limits/limits.ts';
import { overLimit } from '../limits/over-limit.ts';
import type { Member, Owners } from '../limits/owners.ts';
import { readProcess } from '../process-table.ts';
import { descendantsOf } from '../usage.ts';

export interface ContainerBounds {
  readonly owners: Owners<unknown>;
  /** Whose limits it shares. */
  readonly owner: string;
  readonly limits: Limits;
  /** The first process inside, seen from here. */
  readonly first: number;
  /** Whether the engine keeps all containers of the owner within the limits together. */
  readonly together: boolean;
}

/** The engine keeps a container within its limits where it can; Ambit looks at what all of one owner use together. */
export function boundContainer({ owners, owner: name, limits, first, together }: ContainerBounds): Bounds {
  const parentNow = () => readProcess(first)?.parent;
  const monitor = parentNow();
  const member: Member = {
    limits,
    find: (table) => [...table.filter(({ pid }) => pid === first), ...descendantsOf(table, first)],
  };
  const owner = owners.join(name, member, () => undefined);
  return {
    ...unbounded,
    check(_, processes) {
      // Engines find out after 20 s that a container is alone, and until then nobody hears it.
      const parent = parentNow();
      if (monitor !== undefined && parent !== undefined && parent !== monitor)
        return 'what kept its container was killed';
      return together ? undefined : overLimit(owner.usage(processes()), owner.limits());
    },
    release: () => void owners.leave(name, member),
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
