import {
  type Admission,
  type HeldLease,
  type Limits,
  type Scope,
  type Spent,
  type StoredUse,
  scopes,
  type Verdict,
} from '../admission.ts';
import {
  type Counters,
  chargeCounters,
  countAheadMs,
  countOpen,
  dayNumber,
  findRefusal,
  type LeaseUse,
  noCounters,
  type QuotaAccount,
  readCost,
  settleCounters,
} from '../quota.ts';
import type { Database } from './driver.ts';
import { countChildren, findUsageRow, readRow, type SessionRow, toRecord, type UsageRow } from './session-rows.ts';

interface LeaseKey {
  readonly id: string;
  readonly lease: string;
}

interface LeaseRow extends LeaseUse {
  readonly until: number;
  readonly places: number;
}

type SharedScope = 'user' | 'workspace';

export function admitRow(database: Database, request: Admission, lease: string, now: number): Verdict {
  const row = findUsageRow(database, request.id, now);
  if ('outcome' in row) return row;
  if (request.version !== undefined && request.version !== row.version)
    return { outcome: 'stale', record: toRecord(readRow(database, row.id) as SessionRow) };
  const cost = readCost(request);
  const accounts = listAccounts(database, row, request, now);
  const refusal = findRefusal(accounts, cost, now);
  if (refusal !== undefined) return refusal;
  let own: Counters = noCounters;
  for (const { scope, limits, counters } of accounts) {
    const after = chargeCounters(scope, counters, limits, cost, now);
    if (scope === 'session') own = after;
    else writeCounters(database, scope, row, after);
  }
  const { holdMs } = request;
  // A live session's idle_at already covers every lease that is held.
  let idleAt = Math.max(row.idle_at, now + row.ttl_ms);
  if (holdMs !== undefined) {
    const until = Math.min(now + holdMs, row.ends_at);
    idleAt = Math.max(idleAt, until);
    // The calls of a child count with its parent, so its leases belong to no user, and mostly to no workspace.
    const userId = row.parent_id === null ? row.user_id : '';
    const workspaceId = row.counts_workspace === 1 ? row.workspace_id : null;
    database
      .prepare('INSERT INTO leases VALUES (?, ?, ?, ?, ?, ?, ?, ?)')
      .run(row.id, lease, userId, workspaceId, until, cost.places, cost.calls, dayNumber(now));
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

export function renewRow(database: Database, key: LeaseKey, holdMs: number, spent: Spent, now: number): boolean {
  const { id, lease } = key;
  const row = findUsageRow(database, id, now);
  if ('outcome' in row) return false;
  const held = database
    .prepare('SELECT until, places, calls, day FROM leases WHERE session_id = ? AND lease = ? AND until > ?')
    .get(id, lease, now) as LeaseRow | undefined;
  if (held === undefined) return false;
  const until = Math.min(now + holdMs, row.ends_at);
  const places = Math.min(held.places, spent.places ?? held.places);
  database
    .prepare('UPDATE leases SET until = ?, places = ?, calls = ? WHERE session_id = ? AND lease = ?')
    .run(until, places, countOpen(spent, held), id, lease);
  settleRow(database, row, held, until, spent, now);
  return true;
}

export function releaseRow(database: Database, key: LeaseKey, spent: Spent, now: number): void {
  const row = findUsageRow(database, key.id, now);
  if ('outcome' in row) return;
  const held = database
    .prepare('DELETE FROM leases WHERE session_id = ? AND lease = ? AND until > ? RETURNING until, places, calls, day')
    .get(key.id, key.lease, now) as LeaseRow | undefined;
  if (held !== undefined) settleRow(database, row, held, 0, spent, now);
}

/** Counts the actual use of a lease and returns the calls it did not need. `held` is the lease as it was before. */
function settleRow(database: Database, row: UsageRow, held: LeaseRow, until: number, spent: Spent, now: number): void {
  const seenAt = Math.max(row.seen_at, now - (spent.agoMs ?? 0));
  // Only the lease that lasts longest determines the end of the session.
  const wasLast = held.until >= row.idle_at;
  const idleAt = wasLast ? findIdleAt(database, row, seenAt, now) : Math.max(row.idle_at, seenAt + row.ttl_ms, until);
  writeUse(database, row, seenAt, idleAt, settleCounters('session', sessionCounters(row), spent, held, now));
  const expiresAt = Math.min(idleAt, row.ends_at);
  if (expiresAt < row.look_at) database.prepare('UPDATE sessions SET look_at = ? WHERE id = ?').run(expiresAt, row.id);
  if ((spent.bytes ?? 0) === 0 && (spent.unusedCalls ?? 0) === 0) return;
  const shared = readCounters(database, row);
  for (const scope of ['user', 'workspace'] as const) {
    const counters = isCountedIn(row, scope) ? shared[scope] : undefined;
    if (counters !== undefined) writeCounters(database, scope, row, settleCounters(scope, counters, spent, held, now));
  }
}

/** Counts the calls under way of one session, user or workspace. */
export function countUnderWay(database: Database, scope: Scope, owner: string, now: number): number {
  const column = `${scope}_id`;
  const counted = `SELECT coalesce(sum(places), 0) AS calls FROM leases WHERE ${column} = ? AND until > ? AND places > 0`;
  return (database.prepare(counted).get(owner, now) as { calls: number }).calls;
}

export function readUsage(database: Database, id: string, now: number): StoredUse | undefined {
  const row = findUsageRow(database, id, now);
  if ('outcome' in row) return undefined;
  const leases = listHeldLeases(database, id, now);
  return {
    calls: row.calls,
    bytes: row.bytes,
    underWay: leases.reduce((sum, { places }) => sum + places, 0),
    aheadMs: countAheadMs(row.pace_us, now),
    children: countChildren(database, id, now),
    leases,
  };
}

/** Lists the leases of a session that are held and stand for calls. */
function listHeldLeases(database: Database, id: string, now: number): HeldLease[] {
  const rows = database
    .prepare('SELECT lease, calls, places FROM leases WHERE session_id = ? AND until > ? AND calls + places > 0')
    .all(id, now) as unknown as HeldLease[];
  return rows.map(({ lease, calls, places }) => ({ lease, calls, places }));
}

/** Finds when a session runs out if it was last used at `seenAt`. A lease that is held extends it. */
function findIdleAt(database: Database, row: UsageRow, seenAt: number, now: number): number {
  const lastLease = 'SELECT max(until) AS until FROM leases WHERE session_id = ? AND until > ?';
  const held = database.prepare(lastLease).get(row.id, now) as { until: number | null };
  return Math.max(seenAt + row.ttl_ms, held.until ?? 0);
}

/** Moves the expiry and the leases of a session after its ttl or end was shortened. */
export function shortenLife(database: Database, row: SessionRow, now: number): void {
  database.prepare('UPDATE leases SET until = min(until, ?) WHERE session_id = ?').run(row.ends_at, row.id);
  const idleAt = findIdleAt(database, row, row.seen_at, now);
  database
    .prepare('UPDATE sessions SET idle_at = ?, look_at = min(look_at, ?) WHERE id = ?')
    .run(idleAt, Math.min(idleAt, row.ends_at), row.id);
}

function listAccounts(database: Database, row: UsageRow, request: Admission, now: number): QuotaAccount[] {
  const user = isCountedIn(row, 'user') ? request.limits?.user : undefined;
  const workspace = isCountedIn(row, 'workspace') ? request.limits?.workspace : undefined;
  const shared = user === undefined && workspace === undefined ? {} : readCounters(database, row);
  return scopes.flatMap((scope): QuotaAccount[] => {
    const limits: Limits | undefined = { session: request.limits?.session ?? {}, user, workspace }[scope];
    const owner = { session: row.id, user: row.user_id, workspace: row.workspace_id }[scope];
    if (limits === undefined || owner === null) return [];
    const busy = limits.concurrentCalls === undefined ? 0 : countUnderWay(database, scope, owner, now);
    const counters = scope === 'session' ? sessionCounters(row) : (shared[scope] ?? noCounters);
    return [{ scope, limits, counters, underWay: busy }];
  });
}

/** Tells whether the calls of a session count for its user or workspace. Those of a child count with its parent. */
function isCountedIn(row: UsageRow, scope: SharedScope): boolean {
  return scope === 'user' ? row.parent_id === null : row.counts_workspace === 1;
}

function sessionCounters(row: UsageRow): Counters {
  return { paceUs: row.pace_us, calls: row.calls, bytes: row.bytes, day: 0 };
}

/** Reads the counters of user and workspace with one statement, which costs more than its rows. */
function readCounters(database: Database, row: UsageRow): { readonly [scope in SharedScope]?: Counters } {
  const found = database
    .prepare(
      `SELECT u.pace_us AS user_pace, u.calls AS user_calls, u.bytes AS user_bytes, u.day AS user_day,
        w.pace_us AS workspace_pace, w.calls AS workspace_calls, w.bytes AS workspace_bytes, w.day AS workspace_day
        FROM (SELECT 1) LEFT JOIN counters u ON u.account = ? LEFT JOIN counters w ON w.account = ?`,
    )
    .get(findAccountName('user', row), findAccountName('workspace', row)) as { [column: string]: number | null };
  const counters = (scope: SharedScope): { [scope in SharedScope]?: Counters } => {
    const paceUs = found[`${scope}_pace`] ?? null;
    if (paceUs === null) return {};
    const [calls, bytes, day] = ['calls', 'bytes', 'day'].map((name) => found[`${scope}_${name}`] as number);
    return { [scope]: { paceUs, calls, bytes, day } };
  };
  return { ...counters('user'), ...counters('workspace') };
}

function writeCounters(database: Database, scope: SharedScope, row: UsageRow, counters: Counters): void {
  const { paceUs, calls, bytes, day } = counters;
  database
    .prepare('INSERT OR REPLACE INTO counters VALUES (?, ?, ?, ?, ?)')
    .run(findAccountName(scope, row), paceUs, calls, bytes, day);
}

/** Writes the use of a session, once per request. No index contains these columns. */
function writeUse(database: Database, row: UsageRow, seenAt: number, idleAt: number, own: Counters): void {
  database
    .prepare('UPDATE sessions SET seen_at = ?, idle_at = ?, pace_us = ?, calls = ?, bytes = ? WHERE id = ?')
    .run(seenAt, idleAt, own.paceUs, own.calls, own.bytes, row.id);
}

function findAccountName(scope: SharedScope, row: UsageRow): string | null {
  if (scope === 'user') return `user:${row.user_id}`;
  return row.workspace_id === null ? null : `workspace:${row.workspace_id}`;
}
