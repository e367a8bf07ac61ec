import type { Spent } from '../admission.ts';
import { settled, type Taken, unusedOf } from '../quota.ts';
import { idleFrom } from './admit-rows.ts';
import { ownCounters, readCounters, writeCounters, writeUse } from './counter-rows.ts';
import type { Database } from './driver.ts';
import { type CountedRow, reachCounted } from './session-rows.ts';

interface Place {
  readonly id: string;
  readonly lease: string;
}

interface LeaseRow extends Taken {
  readonly until: number;
  readonly places: number;
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
