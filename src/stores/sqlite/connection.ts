import { randomBytes } from 'node:crypto';
import { statSync } from 'node:fs';
import { open as openFile } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';
import { isAmbitError } from '../../errors.ts';
import { closedStoreError, unavailable } from '../store-lifecycle.ts';
import { type Database, type DriverName, isBusy, openDatabase } from './driver.ts';
import { migrateSchema } from './schema.ts';

/** Most work in one transaction: others on the same file, and our own event loop, get their turn in between. */
const maxBatchJobs = 256;
const maxBatchMs = 8;

export interface SqliteConnection {
  /** Reads what is written. */
  read<T>(work: (database: Database) => T): Promise<T>;
  /**
   * Writes, together with what else was asked for in the same moment. The work may be run more than once before it is
   * written, so it does nothing but read and write the database, and refuses before it writes if at all. What is
   * `durable` is on the disk when this resolves.
   */
  write<T>(work: (database: Database) => T, durable?: boolean): Promise<T>;
  /** Brings to the disk what was written without waiting for it. */
  flush(): Promise<void>;
  /** Looks whether the file is still the one that was opened; if not, it is opened anew. */
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
      // Waiting for others happens outside, where it holds up nobody else.
      database.exec('PRAGMA busy_timeout = 0');
      database.prepare('PRAGMA journal_mode = WAL').get();
      database.exec('PRAGMA journal_size_limit = 16777216');
      // What is deleted is overwritten: state and credentials do not stay behind in the file.
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
      // It is broken already; the next use opens another.
    }
  }

  /** Tries until nobody is in the way, for as long as the patience lasts. */
  async function retryWhileBusy<T>(until: number, attempt: (database: Database) => T): Promise<T> {
    for (let pause = 1; ; pause = Math.min(pause * 2, 25)) {
      try {
        return attempt(ensureOpen().database);
      } catch (error) {
        if (isAmbitError(error)) throw error;
        if (!isBusy(error)) {
          closeDatabase();
          throw unavailable('The session store cannot be read or written.', error);
        }
        if (Date.now() >= until) throw unavailable('Another process keeps the session store locked.', error);
      }
      await delay(pause * (0.5 + Math.random()));
    }
  }

  /** Runs as many jobs as fit one transaction and answers how each is to be settled, once that is written. */
  function runBatch(database: Database, jobs: readonly WriteJob[]): (() => void)[] {
    const wanted = jobs.some((job) => job.durable) ? 'FULL' : 'NORMAL';
    if (synchronous !== wanted) database.exec(`PRAGMA synchronous = ${wanted}`);
    synchronous = wanted;
    return runInTransaction(database, jobs);
  }

  async function drainQueue(): Promise<void> {
    // A moment later, so that what is asked for together is written together.
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
        // When others were in the way, those who asked later may still wait; when it is broken, it is for all.
        const over = opened === undefined ? jobs : jobs.filter((job) => job.until <= now);
        queue = queue.filter((job) => !over.includes(job));
        for (const job of over) job.reject(error);
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
      // Not through SQLite, which would hold up everything else meanwhile. No lock lies on this file.
      const log = await openFile(`${file}-wal`, 'r').catch(() => undefined);
      await log?.sync().finally(() => log.close());
    },

    checkFile() {
      if (opened === undefined) return;
      try {
        if (statSync(file).ino === opened.inode) return;
      } catch {
        // Gone: what is written now would be lost with it.
      }
      closeDatabase();
    },

    async close() {
      await running;
      closed = true;
      try {
        // The log holds what was deleted since. It is emptied, unless another process is at work.
        opened?.database.prepare('PRAGMA wal_checkpoint(TRUNCATE)').get();
      } catch {
        // Whoever is there empties it later.
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

/** A refusal is that job's own affair, and comes before it writes: the others are written without it. */
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
    // Some failures have done it already.
  }
}
