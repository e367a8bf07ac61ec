import { pageAfter } from '../checks.ts';
import { isPrefix, mostMatches } from '../references.ts';
import type { Page, SessionFilter } from '../store.ts';
import type { Database, SqlValue } from './driver.ts';
import { liveAt, recordOf, type SessionRow } from './session-rows.ts';

interface Condition {
  readonly sql: string;
  readonly values: readonly SqlValue[];
}

function fits(filter: SessionFilter, now: number): Condition {
  const given = [
    ['user_id', filter.userId],
    ['workspace_id', filter.workspaceId],
    ['parent_id', filter.parentId],
  ].filter((pair): pair is [string, string] => pair[1] !== undefined);
  return {
    sql: [liveAt, ...given.map(([column]) => `${column} = ?`)].join(' AND '),
    values: [now, now, ...given.map(([, value]) => value)],
  };
}

export function listRows(
  database: Database,
  filter: SessionFilter,
  page: { readonly at: number; readonly id: string; readonly limit: number },
  now: number,
): Page {
  const { sql, values } = fits(filter, now);
  const rows = database
    .prepare(`SELECT * FROM sessions WHERE ${sql} AND (created_at, id) > (?, ?) ORDER BY created_at, id LIMIT ?`)
    .all(...values, page.at, page.id, page.limit + 1) as unknown as SessionRow[];
  const sessions = rows.slice(0, page.limit).map(recordOf);
  const last = sessions.at(-1);
  return { sessions, next: rows.length > page.limit && last !== undefined ? pageAfter(last) : null };
}

export function findRows(database: Database, reference: string, filter: SessionFilter, now: number): SessionRow[] {
  const { sql, values } = fits(filter, now);
  const search = (condition: string, ...more: SqlValue[]) =>
    database
      .prepare(`SELECT * FROM sessions WHERE ${sql} AND ${condition} ORDER BY created_at, id LIMIT ${mostMatches}`)
      .all(...values, ...more) as unknown as SessionRow[];
  const exact = search('id = ?', reference);
  if (exact.length > 0) return exact;
  const named = search('name = ?', reference);
  if (named.length > 0 || !isPrefix(reference)) return named;
  // No character of an id sorts after "~".
  return search('id >= ? AND id < ?', reference, `${reference}~`);
}
