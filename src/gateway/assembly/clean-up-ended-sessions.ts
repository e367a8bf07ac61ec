import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { isAmbitError } from '../../errors.ts';
import { removeFolder } from '../../lib/fs/remove-folder.ts';
import type { Journal } from '../../observability/journal/journal.ts';
import type { Session, UnloadReason } from '../../sessions/session.ts';
import type { Sessions } from '../../sessions/sessions.ts';
import type { SessionStore } from '../../stores/store.ts';
import type { SessionFolders } from '../../workspaces/session-folders/session-folders.ts';
import type { WorkspaceFiles } from '../../workspaces/workspace-files.ts';
import type { Observer } from '../observer.ts';

/** The cleanups after sessions that have ended or were restricted. */
export interface SessionCleanups {
  /** Adds a cleanup. `stopped` resolves when the processes have ended, `finished` when nothing is left. */
  add(finished: Promise<unknown>, stopped: Promise<unknown>): void;
  /** Waits for what processes left behind; two seconds at most once `finished` was called. */
  waitFor(settled: Promise<unknown>): Promise<unknown>;
  /** Resolves when the processes of all these sessions have ended. */
  stopped(): Promise<unknown>;
  /** Resolves when all cleanups are done. */
  finished(): Promise<unknown>;
}

const leftBehindMs = 2000;

interface CleanUpParts {
  readonly sessions: Sessions;
  readonly cleanups: SessionCleanups;
  readonly journal: Journal;
  readonly observer: Pick<Observer, 'sessionOpened' | 'sessionEnded' | 'sessionRestricted'>;
  readonly files: Pick<WorkspaceFiles, 'forget'>;
  readonly folders: Pick<SessionFolders, 'ended'>;
  readonly dataDir: string;
}

/** The reactions of this process to the life of a session. */
interface SessionHandlers {
  opened(session: Session): void;
  /** Resolves when the processes of the session have ended. */
  ended(session: Session, reason: UnloadReason): Promise<void>;
  /** Resolves when everything that processes left behind is gone too. */
  settled(): Promise<unknown>;
  /** Ends what no longer fits. */
  restricted(session: Session, before: Session): Promise<void>;
}

/** A command without a gateway runs nothing for sessions. */
export const noSessionWork: SessionHandlers = {
  opened: () => {},
  ended: async () => {},
  settled: async () => {},
  restricted: async () => {},
};

/** Records when sessions open, end and are restricted, runs the handlers, and removes the files of ended sessions. */
export function cleanUpEndedSessions(parts: CleanUpParts, work: SessionHandlers): void {
  const { sessions, cleanups, journal, observer, files, folders, dataDir } = parts;

  async function removeSessionFiles({ id }: Session): Promise<void> {
    await files.forget(id);
    await removeFolder(join(dataDir, 'run', id));
    // A failure is ignored: the next start tries again.
    await folders.ended(id).catch(() => {});
  }

  sessions.onOpened((session) => {
    journal.record({ kind: 'session', event: 'created', ...sessionFields(session) });
    observer.sessionOpened(session);
    work.opened(session);
  });

  sessions.onEnded((session, reason) => {
    if (reason !== 'unloaded') {
      const { id: sessionId, parentId, userId } = session;
      journal.record({ kind: 'session', event: reason, sessionId, parentId, userId });
      observer.sessionEnded(session, reason);
    }
    const stopped = work.ended(session, reason);
    // A process that was left behind may still write there.
    const settled = stopped.then(() => cleanups.waitFor(work.settled()));
    cleanups.add(
      settled.then(() => (reason === 'unloaded' ? undefined : removeSessionFiles(session))),
      stopped,
    );
  });

  sessions.onRestricted((session, before) => {
    const changed = listChanges(session, before);
    journal.record({ kind: 'session', event: 'restricted', ...sessionFields(session), ...changed });
    observer.sessionRestricted(session);
    const ended = work.restricted(session, before);
    cleanups.add(ended, ended);
  });
}

/** Names what a restriction has changed. The permissions are in the line only if they are among it. */
function listChanges(session: Session, before: Session): Record<string, string> {
  const restrictable = ['trustLevel', 'ttlSeconds', 'servers', 'permissions'] as const;
  const changed = restrictable.filter((name) => String(session[name]) !== String(before[name]));
  return {
    changed: changed.join(' '),
    ...(changed.includes('permissions') ? { permissions: session.permissions.join(' ') } : {}),
  };
}

function sessionFields(session: Session): Record<string, string | number | undefined> {
  return {
    sessionId: session.id,
    parentId: session.parentId,
    name: session.name ?? undefined,
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
  /** A shared promise in Promise.race would keep something of every session for as long as the gateway runs. */
  const waiting = new Set<() => void>();
  let hasWaited = false;
  const stopWaiting = () => {
    hasWaited = true;
    for (const stop of waiting) stop();
  };
  return {
    add(finished, stopped) {
      const removed: Promise<unknown> = finished.finally(() => ending.delete(removed));
      ending.set(removed, stopped);
    },
    waitFor(settled) {
      if (hasWaited) return Promise.resolve();
      let stop = () => {};
      const stopped = new Promise<void>((accept) => {
        stop = accept;
      });
      waiting.add(stop);
      return Promise.race([settled, stopped]).finally(() => waiting.delete(stop));
    },
    stopped: () => Promise.all(ending.values()),
    finished() {
      setTimeout(stopWaiting, leftBehindMs).unref();
      return Promise.all(ending.keys());
    },
  };
}

/** Removes folders of sessions that ended while no gateway ran. */
export async function sweepSessionFolders(
  dataDir: string,
  store: SessionStore,
  folders: Pick<SessionFolders, 'sweep'>,
): Promise<void> {
  const runFolder = join(dataDir, 'run');
  const names = await readdir(runFolder).catch((): string[] => []);
  for (const name of names) if (!(await isLiveSession(store, name))) await removeFolder(join(runFolder, name));
  await folders.sweep((id) => isLiveSession(store, id));
}

async function isLiveSession(store: SessionStore, name: string): Promise<boolean> {
  try {
    return (await store.get(name)) !== undefined;
  } catch (error) {
    // An invalid id belongs to no session. An unavailable store decides nothing.
    return !isAmbitError(error) || error.code !== 'REQUEST_INVALID';
  }
}
