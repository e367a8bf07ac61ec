import { splitWords } from '../../lib/text/split-words.ts';
import type { Database } from '../../stores/sqlite/driver.ts';
import { splitPassages } from './split-passages.ts';

/** A file to be indexed, and the mark by which a change of it is noticed. */
export interface FileMark {
  readonly path: string;
  readonly mark: string;
}

/** A file with its text; undefined where it is not a text or cannot be read. */
export interface FileText extends FileMark {
  readonly text: string | undefined;
}

export interface IndexQuery {
  readonly terms: readonly string[];
  /** The vector of the question, where there is an embedding provider. */
  readonly vector?: Int8Array | undefined;
  /** Only files at or below this path. */
  readonly path: string;
  readonly limit: number;
}

/** A passage that may answer the question. Its text is not stored: it is read from the file again. */
export interface Candidate extends FileMark {
  readonly startLine: number;
  readonly endLine: number;
  /** The definition that the passage is a part of. */
  readonly scope: string;
}

export interface Candidates {
  /** Found by words, the best first. */
  readonly byWords: readonly Candidate[];
  /** Found by meaning, the best first; empty without an embedding provider. */
  readonly byMeaning: readonly Candidate[];
  /** The number of passages with each word of the question, and of all passages. */
  readonly frequencies: Readonly<Record<string, number>>;
  readonly passages: number;
}

/** A passage without a vector yet. */
export interface UnembeddedPassage extends Candidate {
  readonly row: number;
}

/** The index of one folder. A candidate is only a place to look: everything that is shown is read from the file again. */
export interface IndexDatabase {
  /** Returns the files that have changed since they were indexed. */
  findChanged(files: readonly FileMark[]): readonly FileMark[];
  put(files: readonly FileText[]): void;
  /** Removes a file, or all files below a folder. */
  remove(path: string): void;
  /** Ends a round over all files: removes all except these, if they are known. */
  finish(present: ReadonlySet<string> | undefined): void;
  /**
   * Overwrites some of the words of removed files: FTS5 only marks them as removed. Returns true if there is more to
   * do.
   */
  clean(): boolean;
  search(query: IndexQuery): Candidates;
  /** Tells whether all files have been indexed once. */
  isComplete(): boolean;
  listUnembedded(provider: string, afterRow: number, limit: number): readonly UnembeddedPassage[];
  putVectors(vectors: readonly { readonly row: number; readonly vector: Int8Array }[]): void;
  close(): void;
}

/** Another number makes the index anew. */
const schemaVersion = 2;

const schema = `
  CREATE TABLE file (id INTEGER PRIMARY KEY, path TEXT NOT NULL UNIQUE, mark TEXT NOT NULL);
  CREATE TABLE passage (row INTEGER PRIMARY KEY, file INTEGER NOT NULL, start INTEGER NOT NULL, end INTEGER NOT NULL, scope TEXT NOT NULL);
  CREATE INDEX passage_of_file ON passage (file);
  CREATE TABLE vector (row INTEGER PRIMARY KEY, vector TEXT NOT NULL);
  CREATE TABLE setting (name TEXT PRIMARY KEY, value TEXT NOT NULL);
  CREATE VIRTUAL TABLE words USING fts5 (path, names, scope, text, content='', contentless_delete=1, tokenize="unicode61 remove_diacritics 0");
  CREATE VIRTUAL TABLE term USING fts5vocab (words, row);
  PRAGMA user_version = ${schemaVersion};`;

/** A word in the name of a definition says more about a passage than one in its text. */
const weights = '3.0, 5.0, 1.5, 1.0';

/** The pages of words that are cleaned at a time: a search has to wait for them. */
const cleanedPages = 200;

/** A word that more passages contain is not searched for, if there are others. */
const maxShare = 0.2;

export function openIndexDatabase(database: Database, maxBytes: number): IndexDatabase {
  prepareSchema(database, maxBytes);
  const one = (sql: string, ...values: (string | number)[]) => Number(database.prepare(sql).get(...values)?.['n'] ?? 0);

  const inTransaction = <T>(work: () => T): T => runInTransaction(database, work);

  function removeFile(id: number): void {
    for (const table of ['words', 'vector']) {
      const key = table === 'words' ? 'rowid' : 'row';
      database.prepare(`DELETE FROM ${table} WHERE ${key} IN (SELECT row FROM passage WHERE file = ?)`).run(id);
    }
    database.prepare('DELETE FROM passage WHERE file = ?').run(id);
    database.prepare('DELETE FROM file WHERE id = ?').run(id);
    writeCleaning(database, 'due');
  }

  function putFile({ path, mark, text }: FileText): void {
    const before = one('SELECT id AS n FROM file WHERE path = ?', path);
    if (before !== 0) removeFile(before);
    database.prepare('INSERT INTO file (path, mark) VALUES (?, ?)').run(path, mark);
    if (text === undefined) return;
    const id = one('SELECT last_insert_rowid() AS n');
    const pathWords = splitWords(path).join(' ');
    for (const { startLine, endLine, text: own, names, scope } of splitPassages(text)) {
      database
        .prepare('INSERT INTO passage (file, start, end, scope) VALUES (?, ?, ?, ?)')
        .run(id, startLine, endLine, scope);
      const row = one('SELECT last_insert_rowid() AS n');
      const columns = [names.join(' '), scope, own].map((each) => splitWords(each).join(' '));
      database
        .prepare('INSERT INTO words (rowid, path, names, scope, text) VALUES (?, ?, ?, ?, ?)')
        .run(row, pathWords, ...columns);
    }
  }

  return {
    findChanged(files) {
      const known = database.prepare('SELECT mark FROM file WHERE path = ?');
      return files.filter(({ path, mark }) => known.get(path)?.['mark'] !== mark);
    },

    put: (files) => inTransaction(() => files.forEach(putFile)),

    remove: (path) =>
      inTransaction(() => {
        const [sql, values] = belowPath(path);
        for (const { id } of database.prepare(`SELECT id FROM file WHERE ${sql}`).all(...values))
          removeFile(Number(id));
      }),

    finish: (present) =>
      inTransaction(() => {
        for (const { id, path } of database.prepare('SELECT id, path FROM file').all()) {
          if (present !== undefined && !present.has(String(path))) removeFile(Number(id));
        }
        database.prepare("INSERT OR REPLACE INTO setting VALUES ('complete', 'yes')").run();
      }),

    clean: () => cleanWords(database),

    search(query) {
      const frequencies: Record<string, number> = {};
      for (const term of query.terms) frequencies[term] = one('SELECT doc AS n FROM term WHERE term = ?', term);
      const passages = one('SELECT count(*) AS n FROM passage');
      const rare = query.terms.filter((term) => (frequencies[term] ?? 0) <= passages * maxShare);
      // A word that occurs everywhere costs most of the time and finds nothing by itself.
      const terms = rare.some((term) => frequencies[term] !== 0) ? rare : query.terms;
      return {
        byWords: searchWords(database, { ...query, terms }),
        byMeaning: searchVectors(database, query),
        frequencies,
        passages,
      };
    },

    isComplete: () => one("SELECT count(*) AS n FROM setting WHERE name = 'complete'") > 0,

    listUnembedded(provider, afterRow, limit) {
      const used = database.prepare("SELECT value FROM setting WHERE name = 'provider'").get()?.['value'];
      if (used !== provider) {
        inTransaction(() => {
          database.exec('DELETE FROM vector');
          database.prepare("INSERT OR REPLACE INTO setting VALUES ('provider', ?)").run(provider);
        });
      }
      return database
        .prepare(
          'SELECT row, start, end, scope, path, mark FROM passage JOIN file ON id = file WHERE row > ? AND row NOT IN (SELECT row FROM vector) ORDER BY row LIMIT ?',
        )
        .all(afterRow, limit)
        .map((found) => ({ row: Number(found['row']), ...toPlace(found) }));
    },

    putVectors: (vectors) =>
      inTransaction(() => {
        // The passage may have been replaced meanwhile.
        const insert = database.prepare(
          'INSERT OR REPLACE INTO vector (row, vector) SELECT row, ? FROM passage WHERE row = ?',
        );
        for (const { row, vector } of vectors) insert.run(Buffer.from(vector).toString('base64'), row);
      }),

    close: () => database.close(),
  };
}

function prepareSchema(database: Database, maxBytes: number): void {
  database.exec('PRAGMA busy_timeout = 10000');
  database.prepare('PRAGMA journal_mode = WAL').get();
  database.exec('PRAGMA synchronous = NORMAL; PRAGMA journal_size_limit = 1048576; PRAGMA page_size = 4096');
  database.prepare(`PRAGMA max_page_count = ${Math.ceil(maxBytes / 4096)}`).get();
  // Deleted rows are overwritten; `clean` does the same for words.
  database.prepare('PRAGMA secure_delete = ON').get();
  const version = database.prepare('PRAGMA user_version').get()?.['user_version'];
  if (version === schemaVersion) return;
  database.exec('BEGIN IMMEDIATE');
  const current = database.prepare('PRAGMA user_version').get()?.['user_version'];
  if (current !== schemaVersion) {
    for (const table of ['term', 'words', 'setting', 'vector', 'passage', 'file'])
      database.exec(`DROP TABLE IF EXISTS ${table}`);
    database.exec(schema);
  }
  database.exec('COMMIT');
}

function runInTransaction<T>(database: Database, work: () => T): T {
  database.exec('BEGIN IMMEDIATE');
  try {
    const result = work();
    database.exec('COMMIT');
    return result;
  } catch (error) {
    rollBack(database);
    throw error;
  }
}

function rollBack(database: Database): void {
  try {
    database.exec('ROLLBACK');
  } catch {
    // SQLite has done it already, as it does when the index is full.
  }
}

/** Notes in the file that words have to be cleaned, also by a later process. */
function writeCleaning(database: Database, state: 'due' | 'begun'): void {
  database.prepare("INSERT OR REPLACE INTO setting VALUES ('cleaning', ?)").run(state);
}

/** Merges some pages of words, without those of removed files. Returns true if there is more to do. */
function cleanWords(database: Database): boolean {
  const state = database.prepare("SELECT value FROM setting WHERE name = 'cleaning'").get()?.['value'];
  if (state === undefined) return false;
  const countChanges = () => Number(database.prepare('SELECT total_changes() AS n').get()?.['n']);
  const hasMore = runInTransaction(database, () => {
    const before = countChanges();
    // A negative number begins to merge everything; others go on with it, and change one row when nothing is left.
    const pages = state === 'due' ? -cleanedPages : cleanedPages;
    database.prepare("INSERT INTO words (words, rank) VALUES ('merge', ?)").run(pages);
    const isDone = countChanges() - before < 2;
    if (isDone) database.exec("DELETE FROM setting WHERE name = 'cleaning'");
    else writeCleaning(database, 'begun');
    return !isDone;
  });
  // The log still contains what was overwritten.
  if (!hasMore) database.prepare('PRAGMA wal_checkpoint(TRUNCATE)').get();
  return hasMore;
}

/** Selects a file and all files below it. */
function belowPath(path: string): [string, string[]] {
  if (path === '.') return ['1', []];
  // The character after "/" ends the range.
  return ['(path = ? OR (path >= ? AND path < ?))', [path, `${path}/`, `${path}0`]];
}

function toPlace(row: { readonly [column: string]: string | number | null }) {
  return {
    path: String(row['path']),
    mark: String(row['mark']),
    startLine: Number(row['start']),
    endLine: Number(row['end']),
    scope: String(row['scope']),
  };
}

function searchWords(database: Database, { terms, path, limit }: IndexQuery): Candidate[] {
  if (terms.length === 0) return [];
  // Words contain only letters and digits, so nothing in the quotes has a meaning for SQLite.
  const match = terms.map((term) => `"${term}"`).join(' OR ');
  const [below, values] = belowPath(path);
  const rows = database
    .prepare(
      `SELECT file.path AS path, mark, start, end, passage.scope AS scope
       FROM words JOIN passage ON passage.row = words.rowid JOIN file ON file.id = passage.file
       WHERE words MATCH ? AND ${below.replaceAll('path', 'file.path')} ORDER BY bm25(words, ${weights}) LIMIT ?`,
    )
    .all(match, ...values, limit);
  return rows.map(toPlace);
}

function searchVectors(database: Database, { vector, path, limit }: IndexQuery): Candidate[] {
  if (vector === undefined) return [];
  const [below, values] = belowPath(path);
  const rows = database
    .prepare(
      `SELECT path, mark, start, end, scope, vector FROM vector JOIN passage ON passage.row = vector.row
       JOIN file ON file.id = passage.file WHERE ${below}`,
    )
    .all(...values);
  return rows
    .map((row) => ({ row, score: multiply(vector, Buffer.from(String(row['vector']), 'base64')) }))
    .sort((one, other) => other.score - one.score)
    .slice(0, limit)
    .map(({ row }) => toPlace(row));
}

function multiply(one: Int8Array, stored: Buffer): number {
  const other = new Int8Array(stored.buffer, stored.byteOffset, stored.length);
  let sum = 0;
  for (let at = 0; at < one.length; at++) sum += (one[at] as number) * (other[at] ?? 0);
  return sum;
}

/** Tells whether an index is kept in memory. It is lost when the thread ends. */
export function isInMemory(file: string): boolean {
  return file.startsWith(':memory:');
}
