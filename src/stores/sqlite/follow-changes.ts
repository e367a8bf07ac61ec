import type { Change, ChangeFeed } from '../feed.ts';
import type { SqliteConnection } from './connection.ts';
import type { Database } from './driver.ts';
import { restrictedReason } from './session-rows.ts';

const pollMs = 200;

interface ChangeRow {
  readonly number: number;
  readonly kind: 'created' | 'changed' | 'ended' | 'message' | 'result' | 'document';
  readonly session_id: string;
  readonly version: number;
  readonly reason: string | null;
  readonly origin: string | null;
}

interface ChangeFollower {
  /** Reads new changes now, because something was just written here. */
  poll(): void;
  close(): Promise<void>;
}

/** Publishes new rows of the table of changes, which every process on the file writes to. */
export async function followChanges(connection: SqliteConnection, feed: ChangeFeed): Promise<ChangeFollower> {
  let last = await connection.read(readLastNumber);
  let polling: Promise<void> | undefined;
  let again = false;
  let closed = false;

  async function publishChanges(): Promise<void> {
    do {
      again = false;
      try {
        connection.checkFile();
        for (const change of await connection.read(readNewChanges)) if (!closed) feed.publish(change);
      } catch {
        // The store is unavailable. Its users get an error, and the changes are still there afterwards.
      }
    } while (again && !closed);
    polling = undefined;
  }

  function readNewChanges(database: Database): Change[] {
    const newest = readLastNumber(database);
    if (newest === last) return [];
    const rows = database
      .prepare('SELECT * FROM changes WHERE number > ? ORDER BY number')
      .all(last) as unknown as ChangeRow[];
    // A gap in the numbers: some rows were deleted before we read them, or the file is a new one.
    const lost = newest < last || rows.length < newest - last;
    last = newest;
    const changes = rows.map((row) => parseChange(row, database.origin));
    return lost ? [{ kind: 'lost' }, ...changes] : changes;
  }

  function poll(): void {
    if (closed) return;
    again = true;
    polling ??= publishChanges();
  }

  const timer = setInterval(poll, pollMs).unref();

  return {
    poll,
    async close() {
      closed = true;
      clearInterval(timer);
      await polling;
    },
  };
}

/** Reads the highest number ever given, deleted rows included. */
function readLastNumber(database: Database): number {
  const row = database.prepare("SELECT seq FROM sqlite_sequence WHERE name = 'changes'").get();
  return (row?.['seq'] as number | undefined) ?? 0;
}

function parseChange({ kind, session_id: id, version, reason, origin }: ChangeRow, own: string): Change {
  if (kind === 'document') return { kind, collection: reason as string, key: id };
  const here = origin === own;
  if (kind === 'message' || kind === 'result') return { kind, id, here };
  if (kind === 'ended') return { kind, id, reason: reason as Extract<Change, { kind: 'ended' }>['reason'], here };
  return kind === 'created'
    ? { kind, id, version, here }
    : { kind, id, version, restricted: reason === restrictedReason, here };
}
