import { type Admission, type Limits, type Scope, type Spent, scopes, type Verdict } from '../admission.ts';
import {
  type Account,
  type Counters,
  charged,
  costOf,
  dayOf,
  noCounters,
  settled,
  type Taken,
  unusedOf,
  weigh,
} from '../quota.ts';
import type { Database } from './driver.ts';
import { type CountedRow, reachCounted, recordOf, rowOf, type SessionRow } from './session-rows.ts';

interface Place {
  readonly id: string;
  readonly lease: string;
}

interface LeaseRow extends Taken {
  readonly until: number;
  readonly places: number;
}

type Shared = 'user' | 'workspace';

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

export function ownCounters(row: CountedRow): Counters {
  return { paceUs: row.pace_us, calls: row.calls, bytes: row.bytes, day: 0 };
}

/** Of the session's user and workspace, as far as there are any, with one statement: each costs more than its rows. */
export function readCounters(database: Database, row: CountedRow): { readonly [scope in Shared]?: Counters } {
  const found = database
    .prepare(
      `SELECT u.pace_us AS user_pace, u.calls AS user_calls, u.bytes AS user_bytes, u.day AS user_day,
        w.pace_us AS workspace_pace, w.calls AS workspace_calls, w.bytes AS workspace_bytes, w.day AS workspace_day
        FROM (SELECT 1) LEFT JOIN counters u ON u.account = ? LEFT JOIN counters w ON w.account = ?`,
    )
    .get(accountName('user', row), accountName('workspace', row)) as { [column: string]: number | null };
  const counters = (scope: Shared): { [scope in Shared]?: Counters } => {
    const paceUs = found[`${scope}_pace`] ?? null;
    if (paceUs === null) return {};
    const [calls, bytes, day] = ['calls', 'bytes', 'day'].map((name) => found[`${scope}_${name}`] as number);
    return { [scope]: { paceUs, calls, bytes, day } };
  };
  return { ...counters('user'), ...counters('workspace') };
}

export function writeCounters(database: Database, scope: Shared, row: CountedRow, counters: Counters): void {
  const { paceUs, calls, bytes, day } = counters;
  database
    .prepare('INSERT OR REPLACE INTO counters VALUES (?, ?, ?, ?, ?)')
    .run(accountName(scope, row), paceUs, calls, bytes, day);
}

/** The one write of a session in each request; no index holds any of it. */
export function writeUse(database: Database, row: CountedRow, seenAt: number, idleAt: number, own: Counters): void {
  database
    .prepare('UPDATE sessions SET seen_at = ?, idle_at = ?, pace_us = ?, calls = ?, bytes = ? WHERE id = ?')
    .run(seenAt, idleAt, own.paceUs, own.calls, own.bytes, row.id);
}

function accountName(scope: Shared, row: CountedRow): string | null {
  if (scope === 'user') return `user:${row.user_id}`;
  return row.workspace_id === null ? null : `workspace:${row.workspace_id}`;
}

export function renewRow(database: Database, place: Place, holdMs: number, spent: Spent, now: number): boolean {
  const { id, lease } = place;
  const row = reachCounted(database, id, now);
  if ('outcome' in row) return false;
  const held = database
    .prepare('SELECT until, places, calls, day FROM leases WHERE session_id = ? AND lease = ? AND until > ?')
    .get(id, lease, now) as LeaseRow | undefined;
  if (held === undefined) return false;
  const until = Math.min(now + holdMs, row.ends_at);
  const places = Math.min(held.places, spent.places ?? held.places);
  database
    .prepare('UPDATE leases SET until = ?, places = ?, calls = ? WHERE session_id = ? AND lease = ?')
    .run(until, places, held.calls - unusedOf(spent, held), id, lease);
  settle(database, row, held, until, spent, now);
  return true;
}

export function releaseRow(database: Database, place: Place, spent: Spent, now: number): void {
  const row = reachCounted(database, place.id, now);
  if ('outcome' in row) return;
  const held = database
    .prepare('DELETE FROM leases WHERE session_id = ? AND lease = ? AND until > ? RETURNING until, places, calls, day')
    .get(place.id, place.lease, now) as LeaseRow | undefined;
  if (held !== undefined) settle(database, row, held, 0, spent, now);
}

/** Counts what was only known afterwards, and gives back what was not needed. `held` is the place as it was before. */
function settle(database: Database, row: CountedRow, held: LeaseRow, until: number, spent: Spent, now: number): void {
  const seenAt = Math.max(row.seen_at, now - (spent.agoMs ?? 0));
  // Only what kept the session the longest can bring its end nearer.
  const wasLast = held.until >= row.idle_at;
  const idleAt = wasLast ? idleFrom(database, row, seenAt, now) : Math.max(row.idle_at, seenAt + row.ttl_ms, until);
  writeUse(database, row, seenAt, idleAt, settled('session', ownCounters(row), spent, held, now));
  const expiresAt = Math.min(idleAt, row.ends_at);
  if (expiresAt < row.look_at) database.prepare('UPDATE sessions SET look_at = ? WHERE id = ?').run(expiresAt, row.id);
  if ((spent.bytes ?? 0) === 0 && (spent.unusedCalls ?? 0) === 0) return;
  const kept = readCounters(database, row);
  for (const scope of ['user', 'workspace'] as const) {
    const counters = kept[scope];
    if (counters !== undefined) writeCounters(database, scope, row, settled(scope, counters, spent, held, now));
  }
}
