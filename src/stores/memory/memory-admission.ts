import { type Admission, type Scope, type Spent, scopes, type Verdict } from '../admission.ts';
import {
  type Counters,
  chargeCounters,
  countUnused,
  dayNumber,
  findRefusal,
  noCounters,
  type QuotaAccount,
  readCost,
  settleCounters,
} from '../quota.ts';
import {
  countUnderWay,
  findExpiry,
  type MemoryLease,
  type MemorySession,
  toRecord,
  touchSession,
  updateIdleAt,
} from './memory-sessions.ts';

export interface QuotaLedger {
  /** Counters of users and workspaces. */
  readonly counters: Map<string, Counters>;
  /** Sessions of a user or workspace, to count their calls under way. */
  sessionsOf(scope: 'user' | 'workspace', owner: string): Iterable<MemorySession>;
}

export function admitSession(
  held: MemorySession,
  request: Admission,
  ledger: QuotaLedger,
  lease: string,
  now: number,
): Verdict {
  if (request.version !== undefined && request.version !== held.version) {
    return { outcome: 'stale', record: toRecord(held) };
  }
  const cost = readCost(request);
  const accounts = listAccounts(held, request, ledger, now);
  const refusal = findRefusal(accounts, cost, now);
  if (refusal !== undefined) return refusal;
  for (const { scope, limits, counters } of accounts) {
    const after = chargeCounters(scope, counters, limits, cost, now);
    if (scope === 'session') held.counters = after;
    else ledger.counters.set(accountName(scope, findOwner(held, scope) as string), after);
  }
  for (const [id, { until }] of held.leases) if (until <= now) held.leases.delete(id);
  const { holdMs } = request;
  if (holdMs !== undefined) {
    const { places, calls } = cost;
    held.leases.set(lease, { until: Math.min(now + holdMs, held.endsAt), places, calls, day: dayNumber(now) });
  }
  touchSession(held, now);
  return {
    outcome: 'admitted',
    version: held.version,
    lastActiveAt: now,
    expiresAt: findExpiry(held),
    lease: holdMs === undefined ? null : lease,
  };
}

/** Counts the actual use of a lease and returns the calls it did not need. */
export function settleLease(
  held: MemorySession,
  place: MemoryLease,
  spent: Spent,
  ledger: QuotaLedger,
  now: number,
): void {
  held.lastActiveAt = Math.max(held.lastActiveAt, now - (spent.agoMs ?? 0));
  updateIdleAt(held, now);
  held.counters = settleCounters('session', held.counters, spent, place, now);
  for (const scope of ['user', 'workspace'] as const) {
    const owner = findOwner(held, scope);
    const counters = owner === null ? undefined : ledger.counters.get(accountName(scope, owner));
    if (counters !== undefined) {
      ledger.counters.set(accountName(scope, owner as string), settleCounters(scope, counters, spent, place, now));
    }
  }
  place.calls -= countUnused(spent, place);
  place.places = Math.min(place.places, spent.places ?? place.places);
}

function listAccounts(held: MemorySession, request: Admission, ledger: QuotaLedger, now: number): QuotaAccount[] {
  return scopes.flatMap((scope): QuotaAccount[] => {
    const owner = findOwner(held, scope);
    const limits = request.limits?.[scope] ?? (scope === 'session' ? {} : undefined);
    if (limits === undefined || owner === null) return [];
    if (scope === 'session') return [{ scope, limits, counters: held.counters, underWay: countUnderWay(held, now) }];
    let count = 0;
    if (limits.concurrentCalls !== undefined) {
      for (const sibling of ledger.sessionsOf(scope, owner)) count += countUnderWay(sibling, now);
    }
    const counters = ledger.counters.get(accountName(scope, owner)) ?? noCounters;
    return [{ scope, limits, counters, underWay: count }];
  });
}

function findOwner(held: MemorySession, scope: Scope): string | null {
  if (scope === 'session') return held.id;
  return scope === 'user' ? held.userId : held.workspaceId;
}

const accountName = (scope: Scope, owner: string): string => `${scope}:${owner}`;
