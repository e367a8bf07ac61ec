import { remainsMs } from '../record.ts';
import type { Database } from './driver.ts';
import { bury } from './session-rows.ts';

/** In one transaction; what is left over comes in the next. */
const atOnce = 200;
/** How long other processes have to notice a change before it is forgotten. */
const changesKeptMs = 60_000;
const dayMs = 86_400_000;

export interface Swept {
  readonly buried: number;
  readonly more: boolean;
}

export function sweepRows(database: Database, now: number): Swept {
  const due = database
    .prepare('SELECT id, idle_at, ends_at FROM sessions WHERE reason IS NULL AND look_at <= ? LIMIT ?')
    .all(now, atOnce) as { id: string; idle_at: number; ends_at: number }[];
  let buried = 0;
  for (const { id, idle_at, ends_at } of due) {
    const expiresAt = Math.min(idle_at, ends_at);
    if (expiresAt <= now) {
      bury(database, id, 'expired', now);
      buried++;
    } else {
      database.prepare('UPDATE sessions SET look_at = ? WHERE id = ?').run(expiresAt, id);
    }
  }
  const forgotten = database
    .prepare(
      'DELETE FROM sessions WHERE id IN (SELECT id FROM sessions WHERE reason IS NOT NULL AND ends_at <= ? LIMIT ?)',
    )
    .run(now - remainsMs, atOnce);
  database.prepare('DELETE FROM leases WHERE until <= ?').run(now);
  database.prepare('DELETE FROM changes WHERE written_at <= ?').run(now - changesKeptMs);
  database.prepare('DELETE FROM counters WHERE day < ? AND pace_us < ?').run(Math.floor(now / dayMs), now * 1000);
  return { buried, more: due.length === atOnce || forgotten === atOnce };
}

/** Whether a sweep would find anything; asked first, because only writers have to wait for each other. */
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
