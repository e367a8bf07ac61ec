import { closeSync, openSync } from 'node:fs';
import { createRequire } from 'node:module';
import { AmbitError } from '../../errors.ts';
import { makeFilePrivate } from '../../lib/fs/private-files.ts';

export type SqlValue = string | number | null;
type Row = { readonly [column: string]: SqlValue };

interface Statement {
  get(...values: SqlValue[]): Row | undefined;
  all(...values: SqlValue[]): Row[];
  /** Returns the number of changed rows. */
  run(...values: SqlValue[]): number;
}

/** The part of SQLite that is used, whichever library provides it. Prepared statements are cached. */
export interface Database {
  /** The writer's id, by which readers tell their own changes from those of others. */
  readonly origin: string;
  exec(sql: string): void;
  prepare(sql: string): Statement;
  close(): void;
}

interface NativeStatement {
  get(...values: SqlValue[]): unknown;
  all(...values: SqlValue[]): unknown[];
  run(...values: SqlValue[]): { readonly changes: number | bigint };
}

interface NativeDatabase {
  exec(sql: string): unknown;
  prepare(sql: string): NativeStatement;
  close(): unknown;
}

type DatabaseConstructor = new (file: string) => NativeDatabase;
export type DriverName = 'node:sqlite' | 'libsql';

const require = createRequire(import.meta.url);

export function openDatabase(file: string, driver: DriverName = choosePreferredDriver(), origin = ''): Database {
  if (file !== ':memory:') createPrivateFile(file);
  const native = new (loadDriver(driver))(file);
  const statements = new Map<string, Statement>();
  return {
    origin,
    exec: (sql) => void native.exec(sql),
    prepare(sql) {
      const known = statements.get(sql);
      if (known !== undefined) return known;
      const statement = native.prepare(sql);
      const wrapped: Statement = {
        get: (...values) => statement.get(...values) as Row | undefined,
        all: (...values) => statement.all(...values) as Row[],
        run: (...values) => Number(statement.run(...values).changes),
      };
      statements.set(sql, wrapped);
      return wrapped;
    },
    close() {
      statements.clear();
      native.close();
    },
  };
}

/**
 * Creates the file before SQLite does, so that it is private from the start; its companion files inherit the mode. An
 * existing file is not opened: closing it would drop the locks that another connection of this process holds.
 */
function createPrivateFile(file: string): void {
  try {
    closeSync(openSync(file, 'wx', 0o600));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    for (const each of [file, `${file}-wal`, `${file}-shm`]) makeFilePrivate(each);
  }
}

/** Prefers Node's own SQLite where there is one. */
function choosePreferredDriver(): DriverName {
  const [major = 0, minor = 0] = process.versions.node.split('.').map(Number);
  return major > 22 || (major === 22 && minor >= 13) ? 'node:sqlite' : 'libsql';
}

function loadDriver(driver: DriverName): DatabaseConstructor {
  if (driver === 'libsql') return loadLibsql();
  // Node 22 warns that its SQLite may still change; users can do nothing about that.
  const { emitWarning } = process;
  process.emitWarning = () => {};
  try {
    return (require('node:sqlite') as { DatabaseSync: DatabaseConstructor }).DatabaseSync;
  } finally {
    process.emitWarning = emitWarning;
  }
}

function loadLibsql(): DatabaseConstructor {
  try {
    return require('libsql') as DatabaseConstructor;
  } catch (error) {
    throw new AmbitError('STORE_UNAVAILABLE', {
      what: 'SQLite is not available: this version of Node does not include it, and libsql is not installed or does not support this platform.',
      hint: 'Use Node 22.13 or later, install "libsql", or configure store.kind "redis" or "memory".',
      cause: error,
    });
  }
}

/** Tells whether another connection was writing, so that a retry may succeed. */
export function isBusy(error: unknown): boolean {
  const { code, errcode } = error as { code?: unknown; errcode?: unknown };
  const primary = typeof errcode === 'number' ? errcode & 0xff : undefined;
  return primary === 5 || primary === 6 || (typeof code === 'string' && /^SQLITE_(?:BUSY|LOCKED)/.test(code));
}
