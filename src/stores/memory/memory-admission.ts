import { type Admission, type Scope, type Spent, scopes, type Verdict } from '../admission.ts';
import {
  type Counters,
  chargeCounters,
  countOpen,
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

export interface Ledger {
  readonly counters: Map<string, Counters>;
  /** Sessions of a user or workspace, to count their calls under way. */
  sessionsOf(scope: 'user' | 'workspace', owner: string): Iterable<MemorySession>;
}

export function admitCall(
  session: MemorySession,
  request: Admission,
  ledger: Ledger,
  lease: string,
  now: number,
): Verdict {
  if (request.version !== undefined && request.version !== session.version) {
    return { outcome: 'stale', record: toRecord(session) };
  }
  const cost = readCost(request);
  const accounts = listAccounts(session, request, ledger, now);
  const refusal = findRefusal(accounts, cost, now);
  if (refusal !== undefined) return refusal;
  for (const { scope, limits, counters } of accounts) {
    const after = chargeCounters(scope, counters, limits, cost, now);
    if (scope === 'session') session.counters = after;
    else ledger.counters.set(accountName(scope, findOwner(session, scope) as string), after);
  }
  for (const [id, { until }] of session.leases) if (until <= now) session.leases.delete(id);
  const { holdMs } = request;
  if (holdMs !== undefined) {
    const { places, calls } = cost;
    session.leases.set(lease, { until: Math.min(now + holdMs, session.endsAt), places, calls, day: dayNumber(now) });
  }
  touchSession(session, now);
  return {
    outcome: 'admitted',
    version: session.version,
    lastActiveAt: now,
    expiresAt: findExpiry(session),
    lease: holdMs === undefined ? null : lease,
  };
}

/** Counts the actual use of a lease and returns the calls it did not need. */
export function settleLease(
  session: MemorySession,
  taken: MemoryLease,
  spent: Spent,
  ledger: Ledger,
  now: number,
): void {
  session.lastActiveAt = Math.max(session.lastActiveAt, now - (spent.agoMs ?? 0));
  updateIdleAt(session, now);
  session.counters = settleCounters('session', session.counters, spent, taken, now);
  for (const scope of ['user', 'workspace'] as const) {
    const owner = findOwner(session, scope);
    const counters = owner === null ? undefined : ledger.counters.get(accountName(scope, owner));
    if (counters !== undefined) {
      ledger.counters.set(accountName(scope, owner as string), settleCounters(scope, counters, spent, taken, now));
    }
  }
  taken.calls = countOpen(spent, taken);
  taken.places = Math.min(taken.places, spent.places ?? taken.places);
}

function listAccounts(session: MemorySession, request: Admission, ledger: Ledger, now: number): QuotaAccount[] {
  return scopes.flatMap((scope): QuotaAccount[] => {
    const owner = findOwner(session, scope);
    const limits = request.limits?.[scope] ?? (scope === 'session' ? {} : undefined);
    if (limits === undefined || owner === null) return [];
    if (scope === 'session')
      return [{ scope, limits, counters: session.counters, underWay: countUnderWay(session, now) }];
    let count = 0;
    if (limits.concurrentCalls !== undefined) {
      for (const each of ledger.sessionsOf(scope, owner))
        if (findOwner(each, scope) === owner) count += countUnderWay(each, now);
    }
    const counters = ledger.counters.get(accountName(scope, owner)) ?? noCounters;
    return [{ scope, limits, counters, underWay: count }];
  });
}

function findOwner(session: MemorySession, scope: Scope): string | null {
  if (scope === 'session') return session.id;
  // The calls of a child count with its parent.
  if (scope === 'user') return session.parentId === null ? session.userId : null;
  return session.countsWorkspace ? session.workspaceId : null;
}

const accountName = (scope: Scope, owner: string): string => `${scope}:${owner}`;
