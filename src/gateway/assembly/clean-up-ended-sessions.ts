import { join } from 'node:path';
import { removeFolder } from '../../lib/fs/remove-folder.ts';
import type { Journal } from '../../observability/journal/journal.ts';
import type { LeaveReason, Session } from '../../sessions/session.ts';
import type { Sessions } from '../../sessions/sessions.ts';
import type { FilesOfSessions } from '../../workspaces/files-of-sessions.ts';
import type { SessionFolders } from '../../workspaces/session-folders/session-folders.ts';
import type { Observer } from '../observer.ts';

/** The clearing up after sessions that have just ended, or were narrowed. */
export interface SessionCleanups {
  /** Adds one: `over` resolves when nothing of the session is left, `stopped` earlier, when its processes have ended. */
  add(finished: Promise<unknown>, stopped: Promise<unknown>): void;
  /** Waits for the end of what processes left behind; once `over` was called, two seconds at most. */
  waitFor(settled: Promise<unknown>): Promise<unknown>;
  /** Resolves when the processes of all of them have ended. */
  stopped(): Promise<unknown>;
  /** Resolves when nothing is left of any. */
  over(): Promise<unknown>;
}

const leftBehindMs = 2000;

interface CleanUpParts {
  readonly sessions: Sessions;
  readonly cleanups: SessionCleanups;
  readonly journal: Journal;
  readonly observer: Pick<Observer, 'sessionOpened' | 'sessionEnded' | 'sessionRestricted'>;
  readonly files: Pick<FilesOfSessions, 'forget'>;
  readonly folders: Pick<SessionFolders, 'ended'>;
  readonly dataDir: string;
}

/** The work of this process for sessions, as it follows their lives. */
interface SessionHandlers {
  opened(session: Session): void;
  /** Resolves when the processes of the session have ended. */
  ended(session: Session, reason: LeaveReason): Promise<void>;
  /** Resolves when what its processes left behind is gone too. */
  settled(): Promise<unknown>;
  /** Ends what no longer fits. */
  restricted(session: Session, before: Session): Promise<void>;
}

/** A command without a gateway serves nobody. */
export const noSessionWork: SessionHandlers = {
  opened: () => {},
  ended: async () => {},
  settled: async () => {},
  restricted: async () => {},
};

/** Records the lives of sessions, ends or narrows the work for them, and removes their files when they end. */
export function cleanUpEndedSessions(parts: CleanUpParts, work: SessionHandlers): void {
  const { sessions, cleanups, journal, observer, files, folders, dataDir } = parts;

  async function removeSessionFiles({ id }: Session): Promise<void> {
    await files.forget(id);
    await removeFolder(join(dataDir, 'run', id));
    // The next start tries again.
    await folders.ended(id).catch(() => {});
  }

  sessions.onOpened((session) => {
    journal.record({ kind: 'session', event: 'created', ...sessionFields(session) });
    observer.sessionOpened(session);
    work.opened(session);
  });

  sessions.onEnded((session, reason) => {
    if (reason !== 'unloaded') {
      journal.record({ kind: 'session', event: reason, sessionId: session.id, userId: session.userId });
      observer.sessionEnded(session, reason);
    }
    const stopped = work.ended(session, reason);
    // A process that was left behind may still be writing there.
    const settled = stopped.then(() => cleanups.waitFor(work.settled()));
    cleanups.add(
      settled.then(() => (reason === 'unloaded' ? undefined : removeSessionFiles(session))),
      stopped,
    );
  });

  sessions.onRestricted((session, before) => {
    journal.record({ kind: 'session', event: 'restricted', ...sessionFields(session) });
    observer.sessionRestricted(session);
    const over = work.restricted(session, before);
    cleanups.add(over, over);
  });
}

function sessionFields(session: Session): Record<string, string | number | undefined> {
  return {
    sessionId: session.id,
    userId: session.userId,
    agentId: session.agentId,
    workspaceId: session.workspaceId,
    keyId: session.keyId,
    trustLevel: session.trustLevel,
    ttlSeconds: session.ttlSeconds,
    servers: session.servers?.join(' '),
  };
}

export function createSessionCleanups(): SessionCleanups {
  const ending = new Map<Promise<unknown>, Promise<unknown>>();
  let stopWaiting: () => void = () => {};
  const waitedLongEnough = new Promise<void>((accept) => {
    stopWaiting = accept;
  });
  return {
    add(over, stopped) {
      const removed: Promise<unknown> = over.finally(() => ending.delete(removed));
      ending.set(removed, stopped);
    },
    waitFor: (settled) => Promise.race([settled, waitedLongEnough]),
    stopped: () => Promise.all(ending.values()),
    over() {
      setTimeout(stopWaiting, leftBehindMs).unref();
      return Promise.all(ending.keys());
    },
  };
}
