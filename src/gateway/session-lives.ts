import { join } from 'node:path';
import type { ResultCache } from '../cache/result-cache.ts';
import type { Journal } from '../journal/journal.ts';
import { removeFolder } from '../remove-folder.ts';
import type { Warden } from '../runners/warden.ts';
import { goneBecause } from '../sessions/gone-because.ts';
import type { Session } from '../sessions/session.ts';
import type { Sessions } from '../sessions/sessions.ts';
import type { Callers } from '../upstreams/caller.ts';
import type { Catalog } from '../upstreams/catalog/catalog.ts';
import type { Links } from '../upstreams/links.ts';
import type { SessionFolders } from '../workspaces/isolation/session-folders.ts';
import type { FilesOfSessions } from './files-of-sessions.ts';
import type { KeepInBounds } from './keep-in-bounds.ts';
import type { Observer } from './observe.ts';
import type { SandboxLook } from './sandbox-state.ts';

export interface LifeParts {
  readonly sessions: Sessions;
  readonly journal: Journal;
  readonly observer: Observer;
  readonly callers: Callers;
  readonly catalog: Catalog;
  readonly cache: ResultCache;
  readonly links: Links;
  readonly warden: Warden;
  readonly bounds: KeepInBounds;
  readonly files: Pick<FilesOfSessions, 'forget'>;
  readonly sandbox: SandboxLook;
  readonly dataDir: string;
  readonly folders: Pick<SessionFolders, 'ended'>;
}

/** What is live of a session follows its life: it ends with it, and is narrowed with it. */
export interface SessionLives {
  /** Resolves when the processes of all that is just ending have ended. */
  stopped(): Promise<unknown>;
  /** Resolves when nothing is left of it. For what processes left behind it waits two seconds at most. */
  over(): Promise<unknown>;
}

const leftBehindMs = 2000;

export function followSessions(parts: LifeParts): SessionLives {
  const { sessions, journal, observer, callers, catalog, cache, links, warden } = parts;
  const { bounds, files, folders, sandbox, dataDir } = parts;
  /** For each session that is just ending: when it is all over, and before that, when its processes have ended. */
  const ending = new Map<Promise<unknown>, Promise<void>>();
  let waitNoLonger: () => void = () => {};
  const waitedLongEnough = new Promise<void>((accept) => {
    waitNoLonger = accept;
  });

  async function nothingLeft({ id }: Session): Promise<void> {
    await files.forget(id);
    await removeFolder(join(dataDir, 'run', id));
    // What cannot be settled now is at the next start.
    await folders.ended(id).catch(() => {});
  }

  sessions.onOpened((session) => {
    journal.record({ kind: 'session', event: 'created', ...facts(session) });
    observer.sessionOpened(session);
    // Ahead of its first call, which then need not wait for it.
    if (session.trustLevel === 'sandboxed') void sandbox.look();
  });

  sessions.onEnded((session, reason) => {
    if (reason !== 'unloaded') {
      journal.record({ kind: 'session', event: reason, sessionId: session.id, userId: session.userId });
      observer.sessionEnded(session, reason);
    }
    callers.endSession(session.id);
    catalog.forget(session.id);
    cache.forget(session.id);
    const stopped = links.endSession(session.id, goneBecause(reason));
    const over = stopped
      // Whoever a process left behind may still be writing there.
      .then(() => Promise.race([warden.settled(), waitedLongEnough]))
      .then(() => (reason === 'unloaded' ? undefined : nothingLeft(session)))
      .finally(() => ending.delete(over));
    ending.set(over, stopped);
  });

  sessions.onRestricted((session, before) => {
    journal.record({ kind: 'session', event: 'restricted', ...facts(session) });
    observer.sessionRestricted(session);
    catalog.forget(session.id);
    cache.forget(session.id);
    const over: Promise<void> = bounds.restricted(session, before).finally(() => ending.delete(over));
    ending.set(over, over);
  });

  return {
    stopped: () => Promise.all([...ending.values()]),
    over() {
      setTimeout(waitNoLonger, leftBehindMs).unref();
      return Promise.all([...ending.keys()]);
    },
  };
}

function facts(session: Session): Record<string, string | number | undefined> {
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
