import { checkAdmission, checkChange, checkFilter, checkId, checkLease, checkNew, readCursor } from '../checks.ts';
import { defaultDocumentLimits } from '../documents.ts';
import { createChangeFeed } from '../feed.ts';
import { createLeaseId } from '../quota.ts';
import { applyChange, isRestricted, type SessionChange, toBody } from '../record.ts';
import { isReference } from '../session-references.ts';
import { defaultPatienceMs, defaultStateLimits, type SessionStore, type StoreOptions, type Updated } from '../store.ts';
import { refuseWhenClosed, runEverySecond } from '../store-lifecycle.ts';
import { admitRow, countUnderWay, releaseRow, renewRow, shortenLife } from './admission-rows.ts';
import { openConnection } from './connection.ts';
import type { Database, DriverName } from './driver.ts';
import { followChanges } from './follow-changes.ts';
import {
  createRow,
  endSessionRow,
  findGone,
  findLiveRow,
  findRows,
  isSweepDue,
  listRows,
  readRow,
  recordChange,
  type SessionRow,
  sweepRows,
  toRecord,
} from './session-rows.ts';
import { createSqliteDocuments } from './sqlite-documents.ts';
import { createSqliteMarks, createSqliteState } from './sqlite-state.ts';

export interface SqliteOptions extends StoreOptions {
  readonly file: string;
  readonly driver?: DriverName;
}

/** Opens a store in a file that any number of processes on this machine may use at the same time. */
export async function openSqliteStore(options: SqliteOptions): Promise<SessionStore> {
  const now = options.now ?? Date.now;
  const connection = openConnection(options.file, options.patienceMs ?? defaultPatienceMs, options.driver);
  const feed = createChangeFeed();
  const follower = await followChanges(connection, feed);
  const documentLimits = { ...defaultDocumentLimits, ...options.documentLimits };

  /** Writes, and publishes the changes at once. */
  async function writeAndNotify<T>(work: (database: Database) => T): Promise<T> {
    const value = await connection.write(work);
    follower.poll();
    return value;
  }

  async function sweep(): Promise<number> {
    let buried = 0;
    for (let more = true; more; ) {
      const swept = await connection.write((database) => sweepRows(database, now()));
      buried += swept.buried;
      more = swept.more;
    }
    follower.poll();
    return buried;
  }

  function updateRow(database: Database, id: string, expected: number, change: SessionChange): Updated {
    const row = findLiveRow(database, id, now());
    if ('outcome' in row) return row;
    const record = toRecord(row);
    if (record.version !== expected) return { outcome: 'stale', record };
    const next = applyChange(record, change);
    database
      .prepare('UPDATE sessions SET version = ?, ttl_ms = ?, ends_at = ?, body = ? WHERE id = ?')
      .run(next.version, next.ttlSeconds * 1000, next.endsAt, JSON.stringify(toBody(next)), id);
    shortenLife(database, readRow(database, id) as SessionRow, now());
    recordChange(
      database,
      { kind: 'changed', id, version: next.version, restricted: isRestricted(record, next), here: true },
      now(),
    );
    return { outcome: 'updated', record: toRecord(readRow(database, id) as SessionRow) };
  }

  const sweepIfDue = async () => {
    if (await connection.read((database) => isSweepDue(database, now()))) await sweep();
  };
  const stops = [runEverySecond(connection.flush), ...(options.now === undefined ? [runEverySecond(sweepIfDue)] : [])];

  return refuseWhenClosed({
    kind: 'sqlite',
    capabilities: { durable: 'disk', shared: 'machine', whenFull: 'refuse' },

    async create(session, caps = {}) {
      checkNew(session, caps);
      return writeAndNotify((database) => createRow(database, session, caps, now()));
    },
    async get(id) {
      checkId(id);
      const row = await connection.read((database) => findLiveRow(database, id, now()));
      return 'outcome' in row ? undefined : toRecord(row);
    },
    async remains(id) {
      checkId(id);
      const row = await connection.read((database) => readRow(database, id));
      const gone = findGone(row, now());
      if (row === undefined || gone === undefined || gone.outcome === 'missing') return undefined;
      return { record: toRecord(row), reason: gone.outcome === 'ended' ? gone.reason : 'expired' };
    },
    async update(id, expectedVersion, change) {
      checkId(id);
      checkChange(expectedVersion, change);
      return writeAndNotify((database) => updateRow(database, id, expectedVersion, change));
    },
    async end(id, reason = 'ended') {
      checkId(id);
      return writeAndNotify((database) => {
        if ('outcome' in findLiveRow(database, id, now())) return false;
        endSessionRow(database, id, reason, now());
        return true;
      });
    },
    async list(filter = {}, page = {}) {
      checkFilter(filter);
      const from = readCursor(page);
      return connection.read((database) => listRows(database, filter, from, now()));
    },
    async find(reference, filter = {}) {
      checkFilter(filter);
      if (!isReference(reference)) return [];
      const rows = await connection.read((database) => findRows(database, reference, filter, now()));
      return rows.map(toRecord);
    },

    async admit(request) {
      checkAdmission(request);
      const lease = createLeaseId();
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
        const row = findLiveRow(database, id, now());
        if ('outcome' in row) return undefined;
        return { calls: row.calls, bytes: row.bytes, underWay: countUnderWay(database, 'session', id, now()) };
      });
    },

    state: createSqliteState(connection, now, { ...defaultStateLimits, ...options.stateLimits }),
    marks: createSqliteMarks(connection, now),
    documents: createSqliteDocuments(connection, writeAndNotify, now, documentLimits),
    watch: feed.watch,
    sweep,
    // A write is needed: a file that another process keeps locked can still be read, but is of no use.
    ping: () => connection.write((database) => void database.prepare('SELECT 1 FROM sessions LIMIT 1').get(), false),
    async close() {
      for (const stop of stops) stop();
      await follower.close();
      feed.close();
      await connection.close();
    },
  });
}
