import {
  checkAdmission,
  checkChange,
  checkFilter,
  checkId,
  checkLease,
  checkNew,
  readPage,
} from '../check-arguments.ts';
import { defaultDocumentLimits } from '../documents.ts';
import { createFeed } from '../feed.ts';
import { nextLease } from '../quota.ts';
import { bodyOf, changed, isRestricted } from '../record.ts';
import { isReference } from '../session-references.ts';
import { defaultPatienceMs, defaultStateLimits, type SessionStore, type StoreOptions, type Updated } from '../store.ts';
import { everySecond, refusingWhenClosed } from '../store-lifecycle.ts';
import { admitRow, narrowLife, releaseRow, renewRow, underWay } from './admission-rows.ts';
import { openConnection } from './connection.ts';
import type { Database, DriverName } from './driver.ts';
import { followChanges } from './follow-changes.ts';
import {
  bury,
  createRow,
  findRows,
  goneAt,
  isSweepDue,
  listRows,
  noteChange,
  reach,
  recordOf,
  rowOf,
  type SessionRow,
  sweepRows,
} from './session-rows.ts';
import { sqliteDocuments } from './sqlite-documents.ts';
import { sqliteMarks, sqliteState } from './sqlite-state.ts';

export interface SqliteOptions extends StoreOptions {
  readonly file: string;
  readonly driver?: DriverName;
}

/** Sessions in a file, which any number of processes on this machine may use at the same time. */
export async function openSqliteStore(options: SqliteOptions): Promise<SessionStore> {
  const now = options.now ?? Date.now;
  const connection = openConnection(options.file, options.patienceMs ?? defaultPatienceMs, options.driver);
  const feed = createFeed();
  const follower = await followChanges(connection, feed);

  /** A write that others are to hear of. */
  async function tellingly<T>(work: (database: Database) => T): Promise<T> {
    const value = await connection.write(work);
    follower.look();
    return value;
  }

  async function sweep(): Promise<number> {
    let buried = 0;
    for (let more = true; more; ) {
      const swept = await connection.write((database) => sweepRows(database, now()));
      buried += swept.buried;
      more = swept.more;
    }
    follower.look();
    return buried;
  }

  function update(database: Database, id: string, expected: number, change: Parameters<typeof changed>[1]): Updated {
    const row = reach(database, id, now());
    if ('outcome' in row) return row;
    const record = recordOf(row);
    if (record.version !== expected) return { outcome: 'stale', record };
    const next = changed(record, change);
    database
      .prepare('UPDATE sessions SET version = ?, ttl_ms = ?, ends_at = ?, body = ? WHERE id = ?')
      .run(next.version, next.ttlSeconds * 1000, next.endsAt, JSON.stringify(bodyOf(next)), id);
    narrowLife(database, rowOf(database, id) as SessionRow, now());
    noteChange(
      database,
      { kind: 'changed', id, version: next.version, restricted: isRestricted(record, next), here: true },
      now(),
    );
    return { outcome: 'updated', record: recordOf(rowOf(database, id) as SessionRow) };
  }

  const sweepIfDue = async () => {
    if (await connection.read((database) => isSweepDue(database, now()))) await sweep();
  };
  const stops = [everySecond(connection.flush), ...(options.now === undefined ? [everySecond(sweepIfDue)] : [])];

  return refusingWhenClosed({
    kind: 'sqlite',
    capabilities: { durable: 'disk', shared: 'machine', whenFull: 'refuse' },

    async create(session, caps = {}) {
      checkNew(session, caps);
      return tellingly((database) => createRow(database, session, caps, now()));
    },
    async get(id) {
      checkId(id);
      const row = await connection.read((database) => reach(database, id, now()));
      return 'outcome' in row ? undefined : recordOf(row);
    },
    async remains(id) {
      checkId(id);
      const row = await connection.read((database) => rowOf(database, id));
      const gone = goneAt(row, now());
      if (row === undefined || gone === undefined || gone.outcome === 'missing') return undefined;
      return { record: recordOf(row), reason: gone.outcome === 'ended' ? gone.reason : 'expired' };
    },
    async update(id, expectedVersion, change) {
      checkId(id);
      checkChange(expectedVersion, change);
      return tellingly((database) => update(database, id, expectedVersion, change));
    },
    async end(id, reason = 'ended') {
      checkId(id);
      return tellingly((database) => {
        if ('outcome' in reach(database, id, now())) return false;
        bury(database, id, reason, now());
        return true;
      });
    },
    async list(filter = {}, page = {}) {
      checkFilter(filter);
      const from = readPage(page);
      return connection.read((database) => listRows(database, filter, from, now()));
    },
    async find(reference, filter = {}) {
      checkFilter(filter);
      if (!isReference(reference)) return [];
      const rows = await connection.read((database) => findRows(database, reference, filter, now()));
      return rows.map(recordOf);
    },

    async admit(request) {
      checkAdmission(request);
      const lease = nextLease();
      return connection.write((database) => admitRow(database, request, lease, now()), false);
    },
    async renew(id, lease, holdMs, spent = {}) {
      checkLease(id, lease, spent, holdMs);
      return connection.write((database) => renewRow(database, { id, lease }, holdMs, spent, now()), false);
    },
    async release(id, lease, spent = {}) {
      checkLease(id, lease, spent);
      await connection.write((database) => releaseRow(database, { id, lease }, spent, now()), false);
    },
    async usage(id) {
      checkId(id);
      return connection.read((database) => {
        const row = reach(database, id, now());
        if ('outcome' in row) return undefined;
        return { calls: row.calls, bytes: row.bytes, underWay: underWay(database, 'session', id, now()) };
      });
    },

    state: sqliteState(connection, now, { ...defaultStateLimits, ...options.stateLimits }),
    marks: sqliteMarks(connection, now),
    documents: sqliteDocuments(connection, tellingly, now, { ...defaultDocumentLimits, ...options.documentLimits }),
    watch: feed.watch,
    sweep,
    // As a write: a file that another process keeps locked can still be read, and is of no use.
    ping: () => connection.write((database) => void database.prepare('SELECT 1 FROM sessions LIMIT 1').get(), false),
    async close() {
      for (const stop of stops) stop();
      await follower.close();
      feed.close();
      await connection.close();
    },
  });
}
