import {
  checkAdmission,
  checkChange,
  checkDocument,
  checkDocumentList,
  checkFilter,
  checkId,
  checkLease,
  checkNew,
  fitsDocument,
  readCursor,
} from '../checks.ts';
import {
  type AtVersion,
  type Document,
  type DocumentDeleted,
  type DocumentLimits,
  type DocumentListOptions,
  type DocumentPage,
  type DocumentPut,
  type Documents,
  defaultDocumentLimits,
  findListStart,
  maxPageBytes,
} from '../documents.ts';
import { createChangeFeed } from '../feed.ts';
import { createLeaseId } from '../quota.ts';
import { applyChange, isRestricted, type SessionChange, toBody } from '../record.ts';
import { isReference } from '../session-references.ts';
import {
  defaultPatienceMs,
  defaultResultLimits,
  defaultStateLimits,
  type SessionStore,
  type StoreOptions,
  type Updated,
} from '../store.ts';
import { refuseWhenClosed, runEverySecond } from '../store-lifecycle.ts';
import { admitRow, readUsage, releaseRow, renewRow, shortenLife } from './admission-rows.ts';
import { openConnection, type SqliteConnection } from './connection.ts';
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
import { createSqliteInboxes } from './sqlite-inbox.ts';
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
      return connection.read((database) => readUsage(database, id, now()));
    },

    state: createSqliteState(connection, {
      table: 'state',
      now,
      limits: { ...defaultStateLimits, ...options.stateLimits },
      write: connection.write,
    }),
    results: createSqliteState(connection, {
      table: 'results',
      now,
      limits: { ...defaultResultLimits, ...options.resultLimits },
      write: writeAndNotify,
      onWritten: (database, id) => recordChange(database, { kind: 'result', id, here: true }, now()),
    }),
    marks: createSqliteMarks(connection, now),
    inboxes: createSqliteInboxes(connection, writeAndNotify, now),
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

/** Writes, and publishes the changes at once. */
type NotifyingWrite = <T>(work: (database: Database) => T) => Promise<T>;

function createSqliteDocuments(
  connection: SqliteConnection,
  writeAndNotify: NotifyingWrite,
  now: () => number,
  limits: DocumentLimits,
): Documents {
  function putDocument(
    database: Database,
    { collection, key, text, max }: { collection: string; key: string; text: string; max: number },
  ): DocumentPut {
    const isNew = readVersion(database, collection, key) === 0;
    if (isNew && countDocuments(database, collection) >= max) return { outcome: 'full', limit: 'documents' };
    const { version } = database
      .prepare(
        `INSERT INTO collections VALUES (?, 1) ON CONFLICT (collection) DO UPDATE SET version = version + 1
          RETURNING version`,
      )
      .get(collection) as { version: number };
    database
      .prepare('INSERT OR REPLACE INTO documents (collection, key, version, bytes, text) VALUES (?, ?, ?, ?, ?)')
      .run(collection, key, version, Buffer.byteLength(text), text);
    recordChange(database, { kind: 'document', collection, key }, now());
    return { outcome: 'written', version };
  }

  return {
    async get(collection, key) {
      checkDocument(collection, key);
      const sql = 'SELECT key, text, version FROM documents WHERE collection = ? AND key = ?';
      const row = await connection.read((database) => database.prepare(sql).get(collection, key));
      return row === undefined ? undefined : toDocument(row as unknown as Document);
    },

    async put(collection, key, text, options = {}) {
      checkDocument(collection, key, options);
      const fits = fitsDocument(text, limits);
      return writeAndNotify((database): DocumentPut => {
        const conflict = findConflict(database, collection, key, options);
        if (conflict !== undefined) return conflict;
        const max = Math.min(limits.documents, options.maxDocuments ?? limits.documents);
        const { maxBytes } = options;
        if (maxBytes !== undefined && countBytes(database, collection, key) + Buffer.byteLength(text) > maxBytes)
          return { outcome: 'full', limit: 'totalBytes' };
        return fits ? putDocument(database, { collection, key, text, max }) : { outcome: 'full', limit: 'textBytes' };
      });
    },

    async delete(collection, key, options = {}) {
      checkDocument(collection, key, options);
      return writeAndNotify((database): DocumentDeleted => {
        const conflict = findConflict(database, collection, key, options);
        if (conflict !== undefined) return conflict;
        const deleted = database.prepare('DELETE FROM documents WHERE collection = ? AND key = ?').run(collection, key);
        if (deleted === 0) return { outcome: 'absent' };
        recordChange(database, { kind: 'document', collection, key }, now());
        return { outcome: 'deleted' };
      });
    },

    async list(collection, options = {}) {
      checkDocumentList(collection, options);
      return connection.read((database) => listDocuments(database, collection, options));
    },
  };
}

/** Copies a row, which is not a plain object in every library. */
const toDocument = ({ key, text, version }: Document): Document => ({ key, text, version });

function readVersion(database: Database, collection: string, key: string): number {
  const row = database.prepare('SELECT version FROM documents WHERE collection = ? AND key = ?').get(collection, key);
  return (row?.['version'] as number | undefined) ?? 0;
}

function countDocuments(database: Database, collection: string): number {
  const counted = database.prepare('SELECT count(*) AS there FROM documents WHERE collection = ?').get(collection);
  return counted?.['there'] as number;
}

/** Counts the bytes of all documents of a collection but one. */
function countBytes(database: Database, collection: string, except: string): number {
  const sql = 'SELECT coalesce(sum(bytes), 0) AS bytes FROM documents WHERE collection = ? AND key <> ?';
  return database.prepare(sql).get(collection, except)?.['bytes'] as number;
}

function findConflict(database: Database, collection: string, key: string, { expectedVersion }: AtVersion) {
  if (expectedVersion === undefined) return undefined;
  const version = readVersion(database, collection, key);
  return version === expectedVersion ? undefined : ({ outcome: 'conflict', version } as const);
}

/** Lists documents. SQLite sorts by bytes, so keys with a common prefix are adjacent. Only texts that fit are read. */
function listDocuments(database: Database, collection: string, options: DocumentListOptions): DocumentPage {
  const { prefix = '', limit = 100 } = options;
  const from = findListStart(options);
  const rows = database
    .prepare(
      `SELECT key, bytes FROM documents WHERE collection = ? AND key ${from.self ? '>=' : '>'} ? ORDER BY key LIMIT ?`,
    )
    .all(collection, from.key, limit + 1) as unknown as { key: string; bytes: number }[];
  const other = rows.findIndex(({ key }) => !key.startsWith(prefix));
  const fitting = other === -1 ? rows : rows.slice(0, other);
  let bytes = 0;
  let count = 0;
  while (count < Math.min(fitting.length, limit) && bytes < maxPageBytes) {
    bytes += fitting[count]?.bytes ?? 0;
    count++;
  }
  const [first, last] = [fitting[0], fitting[count - 1]];
  if (first === undefined || last === undefined) return { documents: [], next: null };
  const documents = database
    .prepare('SELECT key, text, version FROM documents WHERE collection = ? AND key BETWEEN ? AND ? ORDER BY key')
    .all(collection, first.key, last.key) as unknown as Document[];
  return { documents: documents.map(toDocument), next: count < fitting.length ? last.key : null };
}
