import { unavailableError } from '../store-lifecycle.ts';
import type { Database } from './driver.ts';

/**
 * The migrations, one for each version; a released one never changes. `look_at` is when the sweep next reads a session:
 * a time before which it cannot have expired. Use of a session moves `idle_at`, which is in no index, so that the write
 * of each request stays cheap.
 */
const migrations: readonly string[] = [
  `
  CREATE TABLE sessions (
    id TEXT PRIMARY KEY,
    version INTEGER NOT NULL,
    user_id TEXT NOT NULL,
    workspace_id TEXT,
    parent_id TEXT,
    name TEXT,
    created_at INTEGER NOT NULL,
    ttl_ms INTEGER NOT NULL,
    ends_at INTEGER NOT NULL,
    seen_at INTEGER NOT NULL,
    idle_at INTEGER NOT NULL,
    look_at INTEGER NOT NULL,
    reason TEXT,
    pace_us INTEGER NOT NULL DEFAULT 0,
    calls INTEGER NOT NULL DEFAULT 0,
    bytes INTEGER NOT NULL DEFAULT 0,
    state_version INTEGER NOT NULL DEFAULT 0,
    body TEXT NOT NULL
  ) STRICT;
  CREATE INDEX live_by_age ON sessions (created_at, id) WHERE reason IS NULL;
  CREATE INDEX live_by_user ON sessions (user_id, created_at, id) WHERE reason IS NULL;
  CREATE INDEX live_by_workspace ON sessions (workspace_id, created_at, id) WHERE reason IS NULL;
  CREATE INDEX live_by_parent ON sessions (parent_id, created_at, id) WHERE reason IS NULL AND parent_id IS NOT NULL;
  CREATE INDEX live_by_name ON sessions (name, user_id) WHERE reason IS NULL AND name IS NOT NULL;
  CREATE INDEX live_by_look ON sessions (look_at) WHERE reason IS NULL;
  CREATE INDEX gone_by_end ON sessions (ends_at) WHERE reason IS NOT NULL;

  CREATE TABLE leases (
    session_id TEXT NOT NULL,
    lease TEXT NOT NULL,
    user_id TEXT NOT NULL,
    workspace_id TEXT,
    until INTEGER NOT NULL,
    places INTEGER NOT NULL,
    calls INTEGER NOT NULL,
    day INTEGER NOT NULL,
    PRIMARY KEY (session_id, lease)
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX leases_by_user ON leases (user_id, until, places) WHERE places > 0;
  CREATE INDEX leases_by_workspace ON leases (workspace_id, until, places) WHERE places > 0;

  CREATE TABLE counters (
    account TEXT PRIMARY KEY,
    pace_us INTEGER NOT NULL,
    calls INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    day INTEGER NOT NULL
  ) STRICT, WITHOUT ROWID;

  CREATE TABLE state (
    session_id TEXT NOT NULL,
    key TEXT NOT NULL,
    version INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    expires_at INTEGER,
    value TEXT NOT NULL,
    PRIMARY KEY (session_id, key)
  ) STRICT;

  CREATE TABLE marks (
    session_id TEXT NOT NULL,
    key TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (session_id, key)
  ) STRICT, WITHOUT ROWID;

  CREATE TABLE changes (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    written_at INTEGER NOT NULL,
    kind TEXT NOT NULL,
    session_id TEXT NOT NULL,
    version INTEGER NOT NULL,
    reason TEXT
  ) STRICT;
  `,
  `
  CREATE TABLE collections (
    collection TEXT PRIMARY KEY,
    version INTEGER NOT NULL
  ) STRICT, WITHOUT ROWID;

  CREATE TABLE documents (
    collection TEXT NOT NULL,
    key TEXT NOT NULL,
    version INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    text TEXT NOT NULL,
    PRIMARY KEY (collection, key)
  ) STRICT;
  `,
  'ALTER TABLE changes ADD COLUMN origin TEXT',
  `
  ALTER TABLE sessions ADD COLUMN message_pace_us INTEGER NOT NULL DEFAULT 0;
  ALTER TABLE sessions ADD COLUMN last_message INTEGER NOT NULL DEFAULT 0;

  ALTER TABLE sessions ADD COLUMN counts_workspace INTEGER NOT NULL DEFAULT 1;

  CREATE TABLE results (
    session_id TEXT NOT NULL,
    key TEXT NOT NULL,
    version INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    expires_at INTEGER,
    value TEXT NOT NULL,
    PRIMARY KEY (session_id, key)
  ) STRICT;

  CREATE TABLE messages (
    session_id TEXT NOT NULL,
    number INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    text TEXT NOT NULL,
    PRIMARY KEY (session_id, number)
  ) STRICT;
  `,
];

/** Brings the file up to date. One of several processes that start at once does it. */
export function migrateSchema(database: Database): void {
  const { user_version: found } = database.prepare('PRAGMA user_version').get() as { user_version: number };
  if (found === migrations.length) return;
  database.exec('BEGIN IMMEDIATE');
  try {
    const { user_version: version } = database.prepare('PRAGMA user_version').get() as { user_version: number };
    if (version > migrations.length)
      throw unavailableError('The session store was written by a newer version of Ambit.');
    for (const step of migrations.slice(version)) database.exec(step);
    database.exec(`PRAGMA user_version = ${migrations.length}`);
    database.exec('COMMIT');
  } catch (error) {
    database.exec('ROLLBACK');
    throw error;
  }
}
