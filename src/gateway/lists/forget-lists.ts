import { findWorkspace } from '../../config/load/workspace-folders.ts';
import type { Config } from '../../config/schema/schema.ts';
import type { Directory } from '../../identity/directory.ts';
import { localUser } from '../../identity/principal.ts';
import { userCollection } from '../../identity/users.ts';
import type { SessionStore } from '../../stores/store.ts';
import type { Catalog } from '../../upstreams/catalog/catalog.ts';

/** Forgets lists of servers when their workspace, user or credential is gone. */
export interface ForgetLists {
  ofLostWorkspaces(): void;
  /** Forgets the lists of a user who was removed. */
  ofUser(userId: string): void;
  /** Forgets lists that were made with a changed or removed credential. */
  ofCredentials(concerns: (userId: string, server: string) => boolean): void;
  /** Waits for the checks in progress and stops. */
  close(): Promise<unknown>;
}

interface ForgetListsParts {
  readonly catalog: Pick<Catalog, 'forgetOwners' | 'owners'>;
  readonly config: () => Config;
  readonly users: Pick<Directory['users'], 'get'>;
  readonly store: Pick<SessionStore, 'list' | 'remains' | 'watch'>;
}

/**
 * Creates the part. Added users are gone when they are removed. All other users exist as long as they have a session.
 * The store reports the end of sessions of all processes.
 */
export function createForgetLists({ catalog, config, users, store }: ForgetListsParts): ForgetLists {
  const underWay = new Set<Promise<void>>();

  async function isUserGone(userId: string): Promise<boolean> {
    if (userId === '' || userId === localUser) return false;
    if ((await users.get(userId)) !== undefined) return false;
    return (await store.list({ userId }, { limit: 1 })).sessions.length === 0;
  }

  function forgetUser(userId: string): void {
    catalog.forgetOwners((owner) => owner.userId === userId);
  }

  function listedUsers(): Set<string> {
    return new Set(catalog.owners().map(({ userId }) => userId));
  }

  async function forgetGoneUsers(some?: string): Promise<void> {
    for (const userId of listedUsers()) {
      if (some !== undefined && userId !== some) continue;
      // A list that was forgotten too early is fetched again.
      if (await isUserGone(userId).catch(() => true)) forgetUser(userId);
    }
  }

  async function forgetUserOfSession(sessionId: string): Promise<void> {
    if (listedUsers().size === 0) return;
    await forgetGoneUsers((await store.remains(sessionId).catch(() => undefined))?.record.userId);
  }

  function trackWork(work: Promise<void>): void {
    const tracked: Promise<void> = work.finally(() => underWay.delete(tracked));
    underWay.add(tracked);
  }

  const stop = store.watch((change) => {
    if (change.kind === 'ended') trackWork(forgetUserOfSession(change.id));
    else if (change.kind === 'lost') trackWork(forgetGoneUsers());
    else if (change.kind === 'document' && change.collection === userCollection) trackWork(forgetGoneUsers());
  });
  trackWork(forgetGoneUsers());

  return {
    ofLostWorkspaces() {
      const now = config();
      catalog.forgetOwners(
        ({ workspaceId }) => workspaceId !== undefined && findWorkspace(now, workspaceId) === undefined,
      );
    },
    ofUser: forgetUser,
    ofCredentials(concerns) {
      catalog.forgetOwners(({ userId, hasCredentials }, server) => hasCredentials === true && concerns(userId, server));
    },
    async close() {
      await Promise.all(underWay);
      stop();
    },
  };
}
