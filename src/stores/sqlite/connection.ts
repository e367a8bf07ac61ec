import { randomBytes } from 'node:crypto';
import { statSync } from 'node:fs';
import { open as openFile } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';
import { isAmbitError } from '../../errors.ts';
import { closedStoreError, unavailableError } from '../store-lifecycle.ts';
import { type Database, type DriverName, isBusy, openDatabase } from './driver.ts';
import { migrateSchema } from './schema.ts';

/** Limits of one transaction, so that other processes and our own event loop get their turn. */
const maxBatchJobs = 256;
const maxBatchMs = 8;

export interface SqliteConnection {
  read<T>(work: (database: Database) => T): Promise<T>;
  /**
   * Runs a write in one transaction with others of the same moment. `work` may run more than once, so it only reads and
   * writes the database, and throws only before it writes. With `durable` the data is on disk when this resolves.
   */
  write<T>(work: (database: Database) => T, durable?: boolean): Promise<T>;
  /** Syncs writes to disk that were not durable. */
  flush(): Promise<void>;
  /** Checks that the file is still the one that was opened, and closes it otherwise; the next use opens the new one. */
  checkFile(): void;
  close(): Promise<void>;
}

interface WriteJob {
  readonly work: (database: Database) => unknown;
  readonly durable: boolean;
  readonly until: number;
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: unknown) => void;
}

interface OpenDatabase {
  readonly database: Database;
  readonly inode: number;
}

export function openConnection(file: string, patienceMs: number, driver?: DriverName): SqliteConnection {
  const origin = randomBytes(8).toString('hex');
  let opened: OpenDatabase | undefined;
  let queue: WriteJob[] = [];
  let running: Promise<void> | undefined;
  let closed = false;
  let unflushed = false;
  let synchronous: 'FULL' | 'NORMAL' | undefined;

  function ensureOpen(): OpenDatabase {
    if (opened !== undefined) return opened;
    if (closed) throw closedStoreError();
    const database = openDatabase(file, driver, origin);
    synchronous = undefined;
    try {
      // We wait for locks ourselves, so that the event loop is not blocked.
      database.exec('PRAGMA busy_timeout = 0');
      database.prepare('PRAGMA journal_mode = WAL').get();
      database.exec('PRAGMA journal_size_limit = 16777216');
      // Deleted data is overwritten, so that state and credentials do not stay in the file.
      database.exec('PRAGMA secure_delete = ON');
      migrateSchema(database);
      opened = { database, inode: statSync(file).ino };
      return opened;
    } catch (error) {
      database.close();
      throw error;
    }
  }

  function closeDatabase(): void {
    const before = opened;
    opened = undefined;
    try {
      before?.database.close();
    } catch {
      // The connection is broken already; the next use opens another.
    }
  }

  /** Retries while the database is locked, until the deadline. */
  async function retryWhileBusy<T>(until: number, attempt: (database: Database) => T): Promise<T> {
    for (let pause = 1; ; pause = Math.min(pause * 2, 25)) {
      try {
        return attempt(ensureOpen().database);
      } catch (error) {
        if (isAmbitError(error)) throw error;
        if (!isBusy(error)) {
          closeDatabase();
          throw unavailableError('The session store cannot be read or written.', error);
        }
        if (Date.now() >= until) throw unavailableError('Another process has locked the session store.', error);
      }
      await delay(pause * (0.5 + Math.random()));
    }
  }

  /**
   * Runs as many jobs as fit into one transaction. Returns functions that settle them, to be called after the commit.
   */
  function runBatch(database: Database, jobs: readonly WriteJob[]): (() => void)[] {
    const mode = jobs.some((job) => job.durable) ? 'FULL' : 'NORMAL';
    if (synchronous !== mode) database.exec(`PRAGMA synchronous = ${mode}`);
    synchronous = mode;
    return runInTransaction(database, jobs);
  }

  async function drainQueue(): Promise<void> {
    // Waits a moment, so that jobs of the same moment share a transaction.
    await new Promise((resolve) => setImmediate(resolve));
    while (queue.length > 0) {
      const jobs = queue.slice(0, maxBatchJobs);
      try {
        const done = await retryWhileBusy(jobs[0]?.until ?? 0, (database) => runBatch(database, jobs));
        unflushed = true;
        queue = queue.slice(done.length);
        for (const settle of done) settle();
      } catch (error) {
        const now = Date.now();
        // A lock fails only the jobs whose deadline is over; a broken database fails all.
        const failed = opened === undefined ? jobs : jobs.filter((job) => job.until <= now);
        queue = queue.filter((job) => !failed.includes(job));
        for (const job of failed) job.reject(error);
      }
      if (queue.length > 0) await new Promise((resolve) => setImmediate(resolve));
    }
    running = undefined;
  }

  return {
    read: (work) => retryWhileBusy(Date.now() + patienceMs, work),

    write<T>(work: (database: Database) => T, durable = true): Promise<T> {
      return new Promise<T>((resolve, reject) => {
        const until = Date.now() + patienceMs;
        queue.push({ work, durable, until, resolve: resolve as (value: unknown) => void, reject });
        running ??= drainQueue();
      });
    },

    async flush() {
      if (!unflushed || closed) return;
      unflushed = false;
      // SQLite itself would block everything else meanwhile. No lock lies on this file.
      const log = await openFile(`${file}-wal`, 'r').catch(() => undefined);
      await log?.sync().finally(() => log.close());
    },

    checkFile() {
      if (opened === undefined) return;
      try {
        if (statSync(file).ino === opened.inode) return;
      } catch {
        // The file is gone, and further writes would be lost with it.
      }
      closeDatabase();
    },

    async close() {
      await running;
      closed = true;
      try {
        // The log still contains deleted data. It is emptied, unless another process uses it.
        opened?.database.prepare('PRAGMA wal_checkpoint(TRUNCATE)').get();
      } catch {
        // The other process empties it later.
      }
      closeDatabase();
    },
  };
}

function runInTransaction(database: Database, jobs: readonly WriteJob[]): (() => void)[] {
  const settled: (() => void)[] = [];
  const started = performance.now();
  database.exec('BEGIN IMMEDIATE');
  try {
    for (const job of jobs) {
      settled.push(runJob(job, database));
      if (performance.now() - started > maxBatchMs) break;
    }
    database.exec('COMMIT');
    return settled;
  } catch (error) {
    rollBack(database);
    throw error;
  }
}

/** An AmbitError fails only its own job: the job has not written yet, so the others are committed. */
function runJob(job: WriteJob, database: Database): () => void {
  try {
    const value = job.work(database);
    return () => job.resolve(value);
  } catch (error) {
    if (!isAmbitError(error)) throw error;
    return () => job.reject(error);
  }
}

function rollBack(database: Database): void {
  try {
    database.exec('ROLLBACK');
  } catch {
    // Some errors roll back by themselves.
  }
}
