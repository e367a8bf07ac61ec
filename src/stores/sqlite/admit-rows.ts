import { type Admission, type Limits, type Scope, scopes, type Verdict } from '../admission.ts';
import { type Account, type Counters, charged, costOf, dayOf, noCounters, weigh } from '../quota.ts';
import { ownCounters, readCounters, writeCounters, writeUse } from './counter-rows.ts';
import type { Database } from './driver.ts';
import { type CountedRow, reachCounted, recordOf, rowOf, type SessionRow } from './session-rows.ts';

export function admitRow(database: Database, request: Admission, lease: string, now: number): Verdict {
  const row = reachCounted(database, request.id, now);
  if ('outcome' in row) return row;
  if (request.version !== undefined && request.version !== row.version)
    return { outcome: 'stale', record: recordOf(rowOf(database, row.id) as SessionRow) };
  const cost = costOf(request);
  const accounts = accountsOf(database, row, request, now);
  const refusal = weigh(accounts, cost, now);
  if (refusal !== undefined) return refusal;
  let own: Counters = noCounters;
  for (const { scope, limits, counters } of accounts) {
    const after = charged(scope, counters, limits, cost, now);
    if (scope === 'session') own = after;
    else writeCounters(database, scope, row, after);
  }
  const { holdMs } = request;
  // While it lives, idle_at is the last of what keeps it: whatever else is held is in it already.
  let idleAt = Math.max(row.idle_at, now + row.ttl_ms);
  if (holdMs !== undefined) {
    const until = Math.min(now + holdMs, row.ends_at);
    idleAt = Math.max(idleAt, until);
    database
      .prepare('INSERT INTO leases VALUES (?, ?, ?, ?, ?, ?, ?, ?)')
      .run(row.id, lease, row.user_id, row.workspace_id, until, cost.places, cost.calls, dayOf(now));
  }
  writeUse(database, row, now, idleAt, own);
  return {
    outcome: 'admitted',
    version: row.version,
    lastActiveAt: now,
    expiresAt: Math.min(idleAt, row.ends_at),
    lease: holdMs === undefined ? null : lease,
  };
}

/** Calls of one session, user or workspace that are under way and counted. */
export function underWay(database: Database, scope: Scope, owner: string, now: number): number {
  const column = `${scope}_id`;
  const counted = `SELECT coalesce(sum(places), 0) AS calls FROM leases WHERE ${column} = ? AND until > ? AND places > 0`;
  return (database.prepare(counted).get(owner, now) as { calls: number }).calls;
}

/** When it runs out if it was last used then: a call under way keeps it for longer, a place that has run out does not. */
export function idleFrom(database: Database, row: CountedRow, seenAt: number, now: number): number {
  const longest = 'SELECT max(until) AS until FROM leases WHERE session_id = ? AND until > ?';
  const held = database.prepare(longest).get(row.id, now) as { until: number | null };
  return Math.max(seenAt + row.ttl_ms, held.until ?? 0);
}

/** After a change: the ttl or the end may have come nearer. */
export function narrowLife(database: Database, row: SessionRow, now: number): void {
  database.prepare('UPDATE leases SET until = min(until, ?) WHERE session_id = ?').run(row.ends_at, row.id);
  const idleAt = idleFrom(database, row, row.seen_at, now);
  database
    .prepare('UPDATE sessions SET idle_at = ?, look_at = min(look_at, ?) WHERE id = ?')
    .run(idleAt, Math.min(idleAt, row.ends_at), row.id);
}

function accountsOf(database: Database, row: CountedRow, request: Admission, now: number): Account[] {
  const { user, workspace } = request.limits ?? {};
  const kept = user === undefined && workspace === undefined ? {} : readCounters(database, row);
  return scopes.flatMap((scope): Account[] => {
    const limits: Limits | undefined = request.limits?.[scope] ?? (scope === 'session' ? {} : undefined);
    const owner = { session: row.id, user: row.user_id, workspace: row.workspace_id }[scope];
    if (limits === undefined || owner === null) return [];
    const busy = limits.concurrentCalls === undefined ? 0 : underWay(database, scope, owner, now);
    const counters = scope === 'session' ? ownCounters(row) : (kept[scope] ?? noCounters);
    return [{ scope, limits, counters, underWay: busy }];
  });
}
