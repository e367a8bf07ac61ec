import { type Admission, type Limits, type Scope, scopes, type Verdict } from '../admission.ts';
import { type Account, type Counters, charged, costOf, noCounters, weigh } from '../quota.ts';
import type { Database, SqlValue } from './driver.ts';
import { reach, recordOf, type SessionRow } from './session-rows.ts';

export function admitRow(database: Database, request: Admission, lease: string, now: number): Verdict {
  const row = reach(database, request.id, now);
  if ('outcome' in row) return row;
  if (request.version !== undefined && request.version !== row.version)
    return { outcome: 'stale', record: recordOf(row) };
  const cost = costOf(request);
  const accounts = accountsOf(database, row, request, now);
  const refusal = weigh(accounts, cost, now);
  if (refusal !== undefined) return refusal;
  let own: Counters = noCounters;
  for (const { scope, limits, counters } of accounts) {
    const after = charged(scope, counters, limits, cost, now);
    if (scope === 'session') own = after;
    else writeCounters(database, accountName(scope, row) as string, after);
  }
  const { holdMs } = request;
  if (holdMs !== undefined) {
    database
      .prepare(
        'INSERT INTO leases (lease, session_id, user_id, workspace_id, until, counted) VALUES (?, ?, ?, ?, ?, ?)',
      )
      .run(lease, row.id, row.user_id, row.workspace_id, Math.min(now + holdMs, row.ends_at), cost.concurrent ? 1 : 0);
  }
  const idleAt = idleFrom(database, row, now, now);
  database
    .prepare('UPDATE sessions SET seen_at = ?, idle_at = ?, pace_us = ?, calls = ?, bytes = ? WHERE id = ?')
    .run(now, idleAt, own.paceUs, own.calls, own.bytes, row.id);
  return {
    outcome: 'admitted',
    version: row.version,
    lastActiveAt: now,
    expiresAt: Math.min(idleAt, row.ends_at),
    lease: holdMs === undefined ? null : lease,
  };
}

export function renewRow(database: Database, id: string, lease: string, holdMs: number, now: number): boolean {
  const row = reach(database, id, now);
  if ('outcome' in row) return false;
  const renewed = database
    .prepare('UPDATE leases SET until = ? WHERE lease = ? AND session_id = ? AND until > ?')
    .run(Math.min(now + holdMs, row.ends_at), lease, id, now);
  if (renewed === 0) return false;
  touch(database, row, now);
  return true;
}

export function releaseRow(database: Database, id: string, lease: string, bytes: number, now: number): void {
  const row = reach(database, id, now);
  if ('outcome' in row) return;
  const released = database
    .prepare('DELETE FROM leases WHERE lease = ? AND session_id = ? AND until > ?')
    .run(lease, id, now);
  if (released === 0) return;
  touch(database, row, now);
  if (bytes === 0) return;
  const cost = { calls: 0, bytes, concurrent: false };
  database.prepare('UPDATE sessions SET bytes = bytes + ? WHERE id = ?').run(bytes, id);
  for (const scope of ['user', 'workspace'] as const) {
    const account = accountName(scope, row);
    const counters = account === null ? undefined : readCounters(database, account);
    if (counters !== undefined) writeCounters(database, account as string, charged(scope, counters, {}, cost, now));
  }
}

/** Calls of one session, user or workspace that are under way and counted. */
export function underWay(database: Database, scope: Scope, owner: string, now: number): number {
  const column = `${scope}_id`;
  const counted = `SELECT count(*) AS calls FROM leases WHERE ${column} = ? AND until > ? AND counted = 1`;
  return (database.prepare(counted).get(owner, now) as { calls: number }).calls;
}

/** When it runs out if it was last used then: a call under way keeps it for longer, a place that has run out does not. */
function idleFrom(database: Database, row: SessionRow, seenAt: number, now: number): number {
  const longest = 'SELECT max(until) AS until FROM leases WHERE session_id = ? AND until > ?';
  const held = database.prepare(longest).get(row.id, now) as { until: number | null };
  return Math.max(seenAt + row.ttl_ms, held.until ?? 0);
}

function touch(database: Database, row: SessionRow, now: number): void {
  const idleAt = idleFrom(database, row, now, now);
  database.prepare('UPDATE sessions SET seen_at = ?, idle_at = ? WHERE id = ?').run(now, idleAt, row.id);
  // A place given back may bring the end nearer than where the next sweep would look.
  if (idleAt < row.idle_at) {
    database.prepare('UPDATE sessions SET look_at = min(look_at, ?) WHERE id = ?').run(idleAt, row.id);
  }
}

/** After a change: the ttl or the end may have come nearer. */
export function narrowLife(database: Database, row: SessionRow, now: number): void {
  database.prepare('UPDATE leases SET until = min(until, ?) WHERE session_id = ?').run(row.ends_at, row.id);
  const idleAt = idleFrom(database, row, row.seen_at, now);
  database
    .prepare('UPDATE sessions SET idle_at = ?, look_at = min(look_at, ?) WHERE id = ?')
    .run(idleAt, Math.min(idleAt, row.ends_at), row.id);
}

function accountsOf(database: Database, row: SessionRow, request: Admission, now: number): Account[] {
  return scopes.flatMap((scope): Account[] => {
    const limits: Limits | undefined = request.limits?.[scope] ?? (scope === 'session' ? {} : undefined);
    const owner = { session: row.id, user: row.user_id, workspace: row.workspace_id }[scope];
    if (limits === undefined || owner === null) return [];
    const busy = limits.concurrentCalls === undefined ? 0 : underWay(database, scope, owner, now);
    const counters =
      scope === 'session'
        ? { paceUs: row.pace_us, calls: row.calls, bytes: row.bytes, day: 0 }
        : (readCounters(database, accountName(scope, row) as string) ?? noCounters);
    return [{ scope, limits, counters, underWay: busy }];
  });
}

function accountName(scope: 'user' | 'workspace', row: SessionRow): string | null {
  if (scope === 'user') return `user:${row.user_id}`;
  return row.workspace_id === null ? null : `workspace:${row.workspace_id}`;
}

function readCounters(database: Database, account: string): Counters | undefined {
  const row = database.prepare('SELECT * FROM counters WHERE account = ?').get(account);
  if (row === undefined) return undefined;
  const { pace_us, calls, bytes, day } = row as { [column: string]: number };
  return { paceUs: pace_us as number, calls: calls as number, bytes: bytes as number, day: day as number };
}

function writeCounters(database: Database, account: string, counters: Counters): void {
  const { paceUs, calls, bytes, day } = counters;
  const values: SqlValue[] = [account, paceUs, calls, bytes, day];
  database.prepare('INSERT OR REPLACE INTO counters VALUES (?, ?, ?, ?, ?)').run(...values);
}
