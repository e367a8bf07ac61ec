import { checkKey, checkMark, checkStateList, countEntryBytes, isConflict, readStateValue } from '../checks.ts';
import {
  cutKeyPage,
  maxMarks,
  type SessionMarks,
  type SessionStateStore,
  type StateKey,
  type StateWritten,
} from '../state.ts';
import type { StateLimits } from '../store.ts';
import type { SqliteConnection } from './connection.ts';
import type { Database } from './driver.ts';
import { findLiveRow } from './session-rows.ts';

interface StateRow {
  readonly key: string;
  readonly version: number;
  readonly bytes: number;
  readonly expires_at: number | null;
  readonly value: string;
}

const freshCondition = '(expires_at IS NULL OR expires_at > ?)';

const toStateKey = ({ key, version, bytes, expires_at }: StateRow): StateKey => ({
  key,
  version,
  bytes,
  expiresAt: expires_at,
});

export interface SqliteStateOptions {
  readonly table: 'state' | 'results';
  readonly now: () => number;
  readonly limits: StateLimits;
  /** Runs a write, and announces it where others wait for it. */
  readonly write: SqliteConnection['write'];
  onWritten?(database: Database, id: string): void;
}

export function createSqliteState(connection: SqliteConnection, options: SqliteStateOptions): SessionStateStore {
  const { table, now, limits, write, onWritten } = options;

  function findEntry(database: Database, id: string, key: string, at: number): StateRow | undefined {
    const sql = `SELECT * FROM ${table} WHERE session_id = ? AND key = ? AND ${freshCondition}`;
    return database.prepare(sql).get(id, key, at) as StateRow | undefined;
  }

  function writeEntry(database: Database, id: string, key: string, text: string, ttlMs?: number): StateWritten {
    const at = now();
    database.prepare(`DELETE FROM ${table} WHERE session_id = ? AND expires_at <= ?`).run(id, at);
    const others = database
      .prepare(
        `SELECT count(*) AS keys, coalesce(sum(bytes), 0) AS bytes FROM ${table} WHERE session_id = ? AND key <> ?`,
      )
      .get(id, key) as { keys: number; bytes: number };
    const bytes = countEntryBytes(key, text);
    const isNew = findEntry(database, id, key, at) === undefined;
    if (isNew && others.keys >= limits.keys) return { outcome: 'full', limit: 'keys' };
    if (others.bytes + bytes > limits.totalBytes) return { outcome: 'full', limit: 'totalBytes' };
    const { version } = database
      .prepare('UPDATE sessions SET state_version = state_version + 1 WHERE id = ? RETURNING state_version AS version')
      .get(id) as { version: number };
    database
      .prepare(
        `INSERT OR REPLACE INTO ${table} (session_id, key, version, bytes, expires_at, value) VALUES (?, ?, ?, ?, ?, ?)`,
      )
      .run(id, key, version, bytes, ttlMs === undefined ? null : at + ttlMs, text);
    onWritten?.(database, id);
    return { outcome: 'written', version };
  }

  return {
    async get(id, key) {
      checkKey(id, key);
      return connection.read((database) => {
        const row = 'outcome' in findLiveRow(database, id, now()) ? undefined : findEntry(database, id, key, now());
        return row === undefined ? undefined : { ...toStateKey(row), value: JSON.parse(row.value) };
      });
    },

    async set(id, key, value, setOptions = {}) {
      checkKey(id, key);
      const read = readStateValue(value, setOptions, limits);
      return write((database): StateWritten => {
        const session = findLiveRow(database, id, now());
        if ('outcome' in session) return session;
        const version = findEntry(database, id, key, now())?.version ?? 0;
        if (isConflict(setOptions, version)) return { outcome: 'conflict', version };
        if ('limit' in read) return { outcome: 'full', limit: read.limit };
        return writeEntry(database, id, key, read.text, setOptions.ttlMs);
      });
    },

    async list(id, listOptions = {}) {
      checkStateList(id, listOptions);
      return connection.read((database) => {
        if ('outcome' in findLiveRow(database, id, now())) return { keys: [], next: null };
        const sql = `SELECT key, version, bytes, expires_at FROM ${table} WHERE session_id = ? AND ${freshCondition}`;
        const rows = database.prepare(sql).all(id, now()) as unknown as StateRow[];
        return cutKeyPage(rows.map(toStateKey), listOptions);
      });
    },

    async delete(id, key, deleteOptions = {}) {
      checkKey(id, key);
      return connection.write((database) => {
        const session = findLiveRow(database, id, now());
        if ('outcome' in session) return session;
        const version = findEntry(database, id, key, now())?.version ?? 0;
        if (isConflict(deleteOptions, version)) return { outcome: 'conflict', version } as const;
        if (version === 0) return { outcome: 'absent' } as const;
        database.prepare(`DELETE FROM ${table} WHERE session_id = ? AND key = ?`).run(id, key);
        return { outcome: 'deleted' } as const;
      });
    },
  };
}

export function createSqliteMarks(connection: SqliteConnection, now: () => number): SessionMarks {
  function readMark(database: Database, id: string, key: string): string | undefined {
    const row = database.prepare('SELECT value FROM marks WHERE session_id = ? AND key = ?').get(id, key);
    return row?.['value'] as string | undefined;
  }
  return {
    async put(id, key, value = '') {
      checkMark(id, key, value);
      return connection.write((database) => {
        const session = findLiveRow(database, id, now());
        if ('outcome' in session) return session;
        const present = readMark(database, id, key);
        if (present !== undefined) return { outcome: 'present', value: present } as const;
        const { marks } = database.prepare('SELECT count(*) AS marks FROM marks WHERE session_id = ?').get(id) as {
          marks: number;
        };
        if (marks >= maxMarks) return { outcome: 'full' } as const;
        database.prepare('INSERT INTO marks VALUES (?, ?, ?)').run(id, key, value);
        return { outcome: 'put' } as const;
      });
    },
    async get(id, key) {
      checkKey(id, key);
      return connection.read((database) =>
        'outcome' in findLiveRow(database, id, now()) ? undefined : readMark(database, id, key),
      );
    },
    async delete(id, key) {
      checkKey(id, key);
      return connection.write((database) => {
        if ('outcome' in findLiveRow(database, id, now())) return false;
        return database.prepare('DELETE FROM marks WHERE session_id = ? AND key = ?').run(id, key) > 0;
      });
    },
  };
}
