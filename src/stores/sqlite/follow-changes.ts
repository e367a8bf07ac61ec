import type { Change, Feed } from '../feed.ts';
import type { Connection } from './connection.ts';
import type { Database } from './driver.ts';
import { restricted } from './session-rows.ts';

const everyMs = 200;

interface ChangeRow {
  readonly number: number;
  readonly kind: 'created' | 'changed' | 'ended' | 'document';
  readonly session_id: string;
  readonly version: number;
  readonly reason: string | null;
  readonly origin: string | null;
}

export interface Follower {
  /** Looks now, because something has just been written here. */
  look(): void;
  close(): Promise<void>;
}

/** Reads the table of changes, which every process on the file writes to, from the end it has now. */
export async function followChanges(connection: Connection, feed: Feed): Promise<Follower> {
  let last = await connection.read(lastNumber);
  let looking: Promise<void> | undefined;
  let again = false;
  let closed = false;

  async function read(): Promise<void> {
    do {
      again = false;
      try {
        connection.checkFile();
        for (const change of await connection.read(changesSince)) if (!closed) feed.tell(change);
      } catch {
        // The store is away; whoever asks it is told so, and the changes will still be there afterwards.
      }
    } while (again && !closed);
    looking = undefined;
  }

  function changesSince(database: Database): Change[] {
    const newest = lastNumber(database);
    if (newest === last) return [];
    const rows = database
      .prepare('SELECT * FROM changes WHERE number > ? ORDER BY number')
      .all(last) as unknown as ChangeRow[];
    // Fewer than were numbered: some were forgotten before we looked, or the file is another one.
    const lost = newest < last || rows.length < newest - last;
    last = newest;
    const changes = rows.map((row) => changeOf(row, database.origin));
    return lost ? [{ kind: 'lost' }, ...changes] : changes;
  }

  function look(): void {
    if (closed) return;
    again = true;
    looking ??= read();
  }

  const timer = setInterval(look, everyMs).unref();

  return {
    look,
    async close() {
      closed = true;
      clearInterval(timer);
      await looking;
    },
  };
}

/** The highest number ever given, forgotten ones included. */
function lastNumber(database: Database): number {
  const row = database.prepare("SELECT seq FROM sqlite_sequence WHERE name = 'changes'").get();
  return (row?.['seq'] as number | undefined) ?? 0;
}

function changeOf({ kind, session_id: id, version, reason, origin }: ChangeRow, own: string): Change {
  if (kind === 'document') return { kind, collection: reason as string, key: id };
  const here = origin === own;
  if (kind === 'ended') return { kind, id, reason: reason as Extract<Change, { kind: 'ended' }>['reason'], here };
  return kind === 'created'
    ? { kind, id, version, here }
    : { kind, id, version, restricted: reason === restricted, here };
}
