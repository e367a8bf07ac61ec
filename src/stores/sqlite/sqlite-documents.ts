import { checkDocument, checkDocumentList, fitsDocument } from '../checks.ts';
import {
  type AtVersion,
  type Document,
  type DocumentDeleted,
  type DocumentLimits,
  type DocumentListOptions,
  type DocumentPage,
  type DocumentPut,
  type Documents,
  findListStart,
  maxPageBytes,
} from '../documents.ts';
import type { SqliteConnection } from './connection.ts';
import type { Database } from './driver.ts';
import { recordChange } from './session-rows.ts';

/** Writes, and publishes the changes at once. */
type NotifyingWrite = <T>(work: (database: Database) => T) => Promise<T>;

export function createSqliteDocuments(
  connection: SqliteConnection,
  writeAndNotify: NotifyingWrite,
  now: () => number,
  limits: DocumentLimits,
): Documents {
  function putDocument(database: Database, collection: string, key: string, text: string): DocumentPut {
    const isNew = readVersion(database, collection, key) === 0;
    if (isNew && countDocuments(database, collection) >= limits.documents)
      return { outcome: 'full', limit: 'documents' };
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
        return fits ? putDocument(database, collection, key, text) : { outcome: 'full', limit: 'textBytes' };
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
