import { writeCursor } from '../checks.ts';
import type { Change } from '../feed.ts';
import { type EndReason, type NewSession, type RecordBody, remainsMs, type SessionRecord, toBody } from '../record.ts';
import { isPrefix, maxMatches } from '../session-references.ts';
import type { Caps, Created, Gone, Page, SessionFilter } from '../store.ts';
import type { Database, SqlValue } from './driver.ts';

/** The most rows of one transaction; the next transaction takes the rest. */
const maxSweptRows = 200;

/** The time for which changes are kept, so that other processes can read them. */
const changesKeptMs = 60_000;

const dayMs = 86_400_000;

/** A row of `sessions`, with the columns that the code reads. */
export interface SessionRow {
  readonly id: string;
  readonly version: number;
  readonly user_id: string;
  readonly workspace_id: string | null;
  readonly parent_id: string | null;
  /** 0 for a child in the workspace of its parent: its calls count there with the parent. */
  readonly counts_workspace: 0 | 1;
  readonly created_at: number;
  readonly ttl_ms: number;
  readonly ends_at: number;
  readonly seen_at: number;
  readonly idle_at: number;
  readonly look_at: number;
  readonly reason: EndReason | 'expired' | null;
  readonly pace_us: number;
  readonly calls: number;
  readonly bytes: number;
  readonly message_pace_us: number;
  readonly body: string;
}

/** The columns that every request needs. */
export type UsageRow = Omit<SessionRow, 'created_at' | 'message_pace_us' | 'body'>;

const countedColumns = `id, version, user_id, workspace_id, parent_id, counts_workspace, ttl_ms, ends_at, seen_at, idle_at, look_at, reason, pace_us,
  calls, bytes`;

/** The condition of a live session; its two parameters are both the current time. */
const liveCondition = 'reason IS NULL AND idle_at > ? AND ends_at > ?';

export function readRow(database: Database, id: string): SessionRow | undefined {
  return database.prepare('SELECT * FROM sessions WHERE id = ?').get(id) as SessionRow | undefined;
}

export function toRecord(row: SessionRow): SessionRecord {
  return {
    ...(JSON.parse(row.body) as RecordBody),
    version: row.version,
    ttlSeconds: row.ttl_ms / 1000,
    createdAt: row.created_at,
    lastActiveAt: row.seen_at,
    endsAt: row.ends_at,
    expiresAt: Math.min(row.idle_at, row.ends_at),
  };
}

/** Tells why a session is gone at this instant, swept or not; undefined while it lives. */
export function findGone(row: UsageRow | undefined, now: number): Gone | undefined {
  if (row === undefined || now >= row.ends_at + remainsMs) return { outcome: 'missing' };
  if (row.reason !== null && row.reason !== 'expired') return { outcome: 'ended', reason: row.reason };
  return row.reason === 'expired' || now >= row.idle_at || now >= row.ends_at ? { outcome: 'expired' } : undefined;
}

/** Finds a live session, or the reason why there is none. */
export function findLiveRow(database: Database, id: string, now: number): SessionRow | Gone {
  const row = readRow(database, id);
  return findGone(row, now) ?? (row as SessionRow);
}

/** Finds the same without the body, which is long and seldom needed. */
export function findUsageRow(database: Database, id: string, now: number): UsageRow | Gone {
  const row = database.prepare(`SELECT ${countedColumns} FROM sessions WHERE id = ?`).get(id);
  return findGone(row as UsageRow | undefined, now) ?? (row as unknown as UsageRow);
}

export function createRow(database: Database, session: NewSession, caps: Caps, now: number): Created {
  const { id, userId, name } = session;
  if (findGone(readRow(database, id), now)?.outcome !== 'missing') return { outcome: 'exists', what: 'id' };
  if (name !== null) {
    const named = `SELECT 1 FROM sessions WHERE name = ? AND user_id = ? AND ${liveCondition}`;
    if (database.prepare(named).get(name, userId, now, now) !== undefined) return { outcome: 'exists', what: 'name' };
  }
  if (caps.perUser !== undefined) {
    const counted = `SELECT count(*) AS live FROM sessions WHERE user_id = ? AND ${liveCondition}`;
    const { live } = database.prepare(counted).get(userId, now, now) as { live: number };
    if (live >= caps.perUser) return { outcome: 'full', cap: 'perUser' };
  }
  if (caps.perParent !== undefined && session.parentId !== null) {
    if (countChildren(database, session.parentId, now) >= caps.perParent) return { outcome: 'full', cap: 'perParent' };
  }
  if (caps.inAll !== undefined && isFull(database, caps.inAll, now)) return { outcome: 'full', cap: 'inAll' };
  // Expired remains of an earlier session with this id, and its data, may not have been swept yet.
  deleteSessionData(database, id);
  const parent = session.parentId === null ? undefined : readRow(database, session.parentId);
  const idleAt = now + session.ttlSeconds * 1000;
  const endsAt = now + session.lifetimeSeconds * 1000;
  database
    .prepare(
      `INSERT OR REPLACE INTO sessions (id, version, user_id, workspace_id, parent_id, name, created_at, ttl_ms,
        ends_at, seen_at, idle_at, look_at, body, counts_workspace)
        VALUES (?, 1, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
    )
    .run(
      id,
      userId,
      session.workspaceId,
      session.parentId,
      name,
      now,
      session.ttlSeconds * 1000,
      endsAt,
      now,
      idleAt,
      Math.min(idleAt, endsAt),
      JSON.stringify(toBody(session)),
      parent?.workspace_id === session.workspaceId && session.parentId !== null ? 0 : 1,
    );
  recordChange(database, { kind: 'created', id, version: 1, here: true }, now);
  return { outcome: 'created', record: toRecord(readRow(database, id) as SessionRow) };
}

export function countChildren(database: Database, parentId: string, now: number): number {
  const counted = `SELECT count(*) AS live FROM sessions WHERE parent_id = ? AND ${liveCondition}`;
  return (database.prepare(counted).get(parentId, now, now) as { live: number }).live;
}

/** Counts all unswept sessions first, which is fast, and the live ones only if those reach the cap. */
function isFull(database: Database, max: number, now: number): boolean {
  const some = database.prepare('SELECT 1 FROM sessions WHERE reason IS NULL LIMIT 1 OFFSET ?').get(max - 1);
  if (some === undefined) return false;
  const { live } = database.prepare(`SELECT count(*) AS live FROM sessions WHERE ${liveCondition}`).get(now, now) as {
    live: number;
  };
  return live >= max;
}

export function endSessionRow(database: Database, id: string, reason: EndReason | 'expired', now: number): void {
  database.prepare('UPDATE sessions SET reason = ? WHERE id = ?').run(reason, id);
  deleteSessionData(database, id);
  recordChange(database, { kind: 'ended', id, reason, here: true }, now);
}

function deleteSessionData(database: Database, id: string): void {
  for (const table of ['state', 'results', 'marks', 'messages', 'leases']) {
    database.prepare(`DELETE FROM ${table} WHERE session_id = ?`).run(id);
  }
}

/** The value of `changes.reason` for a change that made limits tighter. */
export const restrictedReason = 'restricted';

/** Records a change. A document has its key in the column of the id, and its collection in that of the reason. */
export function recordChange(database: Database, change: Exclude<Change, { kind: 'lost' }>, now: number): void {
  const id = change.kind === 'document' ? change.key : change.id;
  const version = 'version' in change ? change.version : 0;
  const reason = changeReason(change);
  database
    .prepare('INSERT INTO changes (written_at, kind, session_id, version, reason, origin) VALUES (?, ?, ?, ?, ?, ?)')
    .run(now, change.kind, id, version, reason, database.origin);
}

function changeReason(change: Exclude<Change, { kind: 'lost' }>): string | null {
  if (change.kind === 'document') return change.collection;
  if (change.kind === 'ended') return change.reason;
  return change.kind === 'changed' && change.restricted ? restrictedReason : null;
}

function filterCondition(filter: SessionFilter, now: number): { sql: string; values: SqlValue[] } {
  const given = [
    ['user_id', filter.userId],
    ['workspace_id', filter.workspaceId],
    ['parent_id', filter.parentId],
  ].filter((pair): pair is [string, string] => pair[1] !== undefined);
  return {
    sql: [liveCondition, ...given.map(([column]) => `${column} = ?`)].join(' AND '),
    values: [now, now, ...given.map(([, value]) => value)],
  };
}

export function listRows(
  database: Database,
  filter: SessionFilter,
  page: { readonly at: number; readonly id: string; readonly limit: number },
  now: number,
): Page {
  const { sql, values } = filterCondition(filter, now);
  const rows = database
    .prepare(`SELECT * FROM sessions WHERE ${sql} AND (created_at, id) > (?, ?) ORDER BY created_at, id LIMIT ?`)
    .all(...values, page.at, page.id, page.limit + 1) as unknown as SessionRow[];
  const sessions = rows.slice(0, page.limit).map(toRecord);
  const last = sessions.at(-1);
  return { sessions, next: rows.length > page.limit && last !== undefined ? writeCursor(last) : null };
}

export function findRows(database: Database, reference: string, filter: SessionFilter, now: number): SessionRow[] {
  const { sql, values } = filterCondition(filter, now);
  // With "+", SQLite chooses the index that finds the fewest rows, and not one that has all rows of a user in this order.
  const search = (condition: string, ...more: SqlValue[]) =>
    database
      .prepare(`SELECT * FROM sessions WHERE ${sql} AND ${condition} ORDER BY +created_at, id LIMIT ${maxMatches}`)
      .all(...values, ...more) as unknown as SessionRow[];
  const exact = search('id = ?', reference);
  if (exact.length > 0) return exact;
  const named = search('name = ?', reference);
  if (named.length > 0 || !isPrefix(reference)) return named;
  // No character of an id sorts after "~".
  return search('id >= ? AND id < ?', reference, `${reference}~`);
}

export function sweepRows(database: Database, now: number): { buried: number; more: boolean } {
  const due = database
    .prepare('SELECT id, idle_at, ends_at FROM sessions WHERE reason IS NULL AND look_at <= ? LIMIT ?')
    .all(now, maxSweptRows) as { id: string; idle_at: number; ends_at: number }[];
  let buried = 0;
  for (const { id, idle_at, ends_at } of due) {
    const expiresAt = Math.min(idle_at, ends_at);
    if (expiresAt <= now) {
      endSessionRow(database, id, 'expired', now);
      buried++;
    } else {
      database.prepare('UPDATE sessions SET look_at = ? WHERE id = ?').run(expiresAt, id);
    }
  }
  const forgotten = database
    .prepare(
      'DELETE FROM sessions WHERE id IN (SELECT id FROM sessions WHERE reason IS NOT NULL AND ends_at <= ? LIMIT ?)',
    )
    .run(now - remainsMs, maxSweptRows);
  database.prepare('DELETE FROM leases WHERE until <= ?').run(now);
  database.prepare('DELETE FROM changes WHERE written_at <= ?').run(now - changesKeptMs);
  database.prepare('DELETE FROM counters WHERE day < ? AND pace_us < ?').run(Math.floor(now / dayMs), now * 1000);
  return { buried, more: due.length === maxSweptRows || forgotten === maxSweptRows };
}

/** Tells whether a sweep has anything to do. A read comes first, because only writers wait for each other. */
export function isSweepDue(database: Database, now: number): boolean {
  const due = database
    .prepare(
      `SELECT EXISTS (SELECT 1 FROM sessions WHERE reason IS NULL AND look_at <= ?)
        OR EXISTS (SELECT 1 FROM sessions WHERE reason IS NOT NULL AND ends_at <= ?)
        OR EXISTS (SELECT 1 FROM changes WHERE written_at <= ?) AS due`,
    )
    .get(now, now - remainsMs, now - 2 * changesKeptMs);
  return due?.['due'] === 1;
}
