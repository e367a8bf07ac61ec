import type { EnforcedLimits, ResourceLimits } from '../../sandbox/limits/limits.ts';
import { measureFamilies } from '../../sandbox/processes/measure-families.ts';
import type { ListedProcess } from '../../upstreams/links/process-slots.ts';

/** Conditions on processes. All that are given must hold. */
export interface ProcessFilter {
  readonly sessionId?: string | undefined;
  readonly server?: string | undefined;
}

/** A process of a server as an operator sees it. */
export interface ProcessView {
  readonly server: string;
  /** Null where several sessions share the process. */
  readonly sessionId: string | null;
  readonly pid: number | null;
  readonly runner: string;
  readonly startedAt: string;
  /** The memory that it uses with everything it has started; null where that is unknown. */
  readonly memoryBytes: number | null;
  readonly processes: number | null;
  readonly limits: readonly ProcessLimit[];
  /** The end of its last call; null while it has one. */
  readonly idleSince: string | null;
}

interface ProcessLimit {
  readonly name: keyof ResourceLimits;
  readonly value: number;
  readonly mechanism: EnforcedLimits[keyof EnforcedLimits];
}

/** Describes the processes that match the filter, and measures only these. */
export function describeProcesses(
  all: readonly ListedProcess[],
  { sessionId, server }: ProcessFilter = {},
): ProcessView[] {
  const listed = all.filter(
    (each) =>
      (sessionId === undefined || each.sessionId === sessionId) && (server === undefined || each.server === server),
  );
  const usage = measureFamilies(listed.flatMap(({ first }) => first ?? []));
  return listed.map((each) => {
    const { memoryBytes = null, processes = null } = usage.get(each.first ?? 0) ?? {};
    return {
      server: each.server,
      sessionId: each.sessionId ?? null,
      pid: each.pid ?? null,
      runner: each.runner,
      startedAt: new Date(each.startedAt).toISOString(),
      memoryBytes,
      processes,
      limits: listLimits(each.bounds),
      idleSince: each.idleSince === undefined ? null : new Date(each.idleSince).toISOString(),
    };
  });
}

function listLimits(bounds: ListedProcess['bounds']): ProcessLimit[] {
  if (bounds === undefined) return [];
  const { limits, enforced } = bounds;
  const names = Object.keys(limits) as (keyof ResourceLimits)[];
  return names.map((name) => ({ name, value: limits[name], mechanism: enforced[name] }));
}
