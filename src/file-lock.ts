import { randomBytes } from 'node:crypto';
import { closeSync, linkSync, openSync, readFileSync, renameSync, rmSync, statSync, writeSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';

const patienceMs = 10_000;
/** The work under a lock takes milliseconds: one this old was left behind. */
const staleMs = 5000;

/** Does something while no other process does it on the same file. */
export async function withLock<T>(file: string, work: () => T): Promise<T> {
  const lock = `${file}.lock`;
  const token = `${process.pid} ${randomBytes(8).toString('hex')}`;
  for (const until = Date.now() + patienceMs; !take(lock, token); await delay(5 + Math.random() * 15)) {
    if (Date.now() > until) throw new Error(`another process keeps ${lock}`);
    breakStale(lock);
  }
  try {
    return work();
  } finally {
    // One that was taken from us in the meantime is not ours to remove.
    if (contentOf(lock) === token) rmSync(lock, { force: true });
  }
}

function take(lock: string, token: string): boolean {
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

/** Moved aside first: of several who find it stale, one moves it, and one that turns out to be fresh goes back. */
function breakStale(lock: string): void {
  const aside = `${lock}.${process.pid}.${randomBytes(4).toString('hex')}`;
  try {
    if (Date.now() - statSync(lock).mtimeMs < staleMs) return;
    renameSync(lock, aside);
    if (Date.now() - statSync(aside).mtimeMs < staleMs) linkSync(aside, lock);
  } catch {
    // Somebody else was faster.
  } finally {
    rmSync(aside, { force: true });
  }
}

function contentOf(lock: string): string | undefined {
  try {
    return readFileSync(lock, 'utf8');
  } catch {
    return undefined;
  }
}
