import type { Counters } from '../quota.ts';
import type { Database } from './driver.ts';
import type { CountedRow } from './session-rows.ts';

type Shared = 'user' | 'workspace';

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
