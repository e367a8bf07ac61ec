import { type Admission, type Scope, type Spent, scopes, type Verdict } from '../admission.ts';
import { type Account, type Counters, charged, costOf, dayOf, noCounters, settled, unusedOf, weigh } from '../quota.ts';
import { expiryOf, type HeldLease, type HeldSession, recordOf, setIdle, touch, underWay } from './memory-sessions.ts';

export interface Ledger {
  /** Of users and workspaces. */
  readonly counters: Map<string, Counters>;
  /** The user's and the workspace's sessions, for counting what they have under way. */
  sessionsOf(scope: 'user' | 'workspace', owner: string): Iterable<HeldSession>;
}

export function admitHeld(held: HeldSession, request: Admission, ledger: Ledger, lease: string, now: number): Verdict {
  if (request.version !== undefined && request.version !== held.version) {
    return { outcome: 'stale', record: recordOf(held) };
  }
  const cost = costOf(request);
  const accounts = accountsOf(held, request, ledger, now);
  const refusal = weigh(accounts, cost, now);
  if (refusal !== undefined) return refusal;
  for (const { scope, limits, counters } of accounts) {
    const after = charged(scope, counters, limits, cost, now);
    if (scope === 'session') held.counters = after;
    else ledger.counters.set(accountName(scope, ownerOf(held, scope) as string), after);
  }
  for (const [id, { until }] of held.leases) if (until <= now) held.leases.delete(id);
  const { holdMs } = request;
  if (holdMs !== undefined) {
    const { places, calls } = cost;
    held.leases.set(lease, { until: Math.min(now + holdMs, held.endsAt), places, calls, day: dayOf(now) });
  }
  touch(held, now);
  return {
    outcome: 'admitted',
    version: held.version,
    lastActiveAt: now,
    expiresAt: expiryOf(held),
    lease: holdMs === undefined ? null : lease,
  };
}

/** Counts what was only known afterwards, and gives back what was not needed. */
export function settleHeld(held: HeldSession, place: HeldLease, spent: Spent, ledger: Ledger, now: number): void {
  held.lastActiveAt = Math.max(held.lastActiveAt, now - (spent.agoMs ?? 0));
  setIdle(held, now);
  held.counters = settled('session', held.counters, spent, place, now);
  for (const scope of ['user', 'workspace'] as const) {
    const owner = ownerOf(held, scope);
    const counters = owner === null ? undefined : ledger.counters.get(accountName(scope, owner));
    if (counters !== undefined) {
      ledger.counters.set(accountName(scope, owner as string), settled(scope, counters, spent, place, now));
    }
  }
  place.calls -= unusedOf(spent, place);
  place.places = Math.min(place.places, spent.places ?? place.places);
}

function accountsOf(held: HeldSession, request: Admission, ledger: Ledger, now: number): Account[] {
  return scopes.flatMap((scope): Account[] => {
    const owner = ownerOf(held, scope);
    const limits = request.limits?.[scope] ?? (scope === 'session' ? {} : undefined);
    if (limits === undefined || owner === null) return [];
    if (scope === 'session') return [{ scope, limits, counters: held.counters, underWay: underWay(held, now) }];
    let count = 0;
    if (limits.concurrentCalls !== undefined) {
      for (const sibling of ledger.sessionsOf(scope, owner)) count += underWay(sibling, now);
    }
    const counters = ledger.counters.get(accountName(scope, owner)) ?? noCounters;
    return [{ scope, limits, counters, underWay: count }];
  });
}

function ownerOf(held: HeldSession, scope: Scope): string | null {
  if (scope === 'session') return held.id;
  return scope === 'user' ? held.userId : held.workspaceId;
}

const accountName = (scope: Scope, owner: string): string => `${scope}:${owner}`;
