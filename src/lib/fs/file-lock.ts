import { randomBytes } from 'node:crypto';
import {
  closeSync,
  linkSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  utimesSync,
  writeSync,
} from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';

const maxWaitMs = 10_000;
/** Age at which a lock was left behind by a dead process. The work under a lock takes milliseconds. */
const staleMs = 5000;

/** Runs the work while no other process does so for the same file. */
export async function withLock<T>(file: string, work: () => T): Promise<T> {
  const lock = await acquireLock(file, maxWaitMs, 5);
  try {
    return work();
  } finally {
    lock.release();
  }
}

/** Does the same for long work. The lock is touched regularly, so it is stale soon after this process dies. */
export async function withLongLock<T>(file: string, maxWaitMs: number, work: () => Promise<T>): Promise<T> {
  const lock = await acquireLock(file, maxWaitMs, 50);
  const refreshing = setInterval(lock.refresh, staleMs / 5).unref();
  try {
    return await work();
  } finally {
    clearInterval(refreshing);
    lock.release();
  }
}

async function acquireLock(
  file: string,
  maxWaitMs: number,
  pauseMs: number,
): Promise<{ release(): void; refresh(): void }> {
  const lock = `${file}.lock`;
  const token = `${process.pid} ${randomBytes(8).toString('hex')}`;
  const until = Date.now() + maxWaitMs;
  for (; !tryTakeLock(lock, token); await delay(pauseMs * (1 + 3 * Math.random()))) {
    if (Date.now() > until) throw new Error(`another process holds ${lock}`);
    breakStale(lock);
  }
  // Another process may have broken the lock as stale.
  const isOurs = () => readLock(lock) === token;
  return {
    release: () => void (isOurs() && rmSync(lock, { force: true })),
    refresh() {
      const now = new Date();
      if (isOurs()) utimesSync(lock, now, now);
    },
  };
}

function tryTakeLock(lock: string, token: string): boolean {
  try {
    const descriptor = openSync(lock, 'wx', 0o600);
    writeSync(descriptor, token);
    closeSync(descriptor);
    return true;
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code !== 'EEXIST') throw cause;
    return false;
  }
}

/** Removes a stale lock. Only one of several processes can rename it; if it turns out fresh, it is put back. */
function breakStale(lock: string): void {
  const aside = `${lock}.${process.pid}.${randomBytes(4).toString('hex')}`;
  try {
    if (Date.now() - statSync(lock).mtimeMs < staleMs) return;
    renameSync(lock, aside);
    if (Date.now() - statSync(aside).mtimeMs < staleMs) linkSync(aside, lock);
  } catch {
    // Another process was faster.
  } finally {
    rmSync(aside, { force: true });
  }
}

function readLock(lock: string): string | undefined {
  try {
    return readFileSync(lock, 'utf8');
  } catch {
    return undefined;
  }
}
