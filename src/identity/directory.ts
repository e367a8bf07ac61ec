import type { SessionStore } from '../stores/store.ts';
import { keyCollection } from './key-record.ts';
import { createKeys, type Keys } from './keys.ts';
import { createUsers, type DeclaredPeople, type TeamView, type Users, type UserView, userCollection } from './users.ts';

/**
 * One organisation, its teams and users, and the keys by which users are known. What the configuration declares is read
 * there each time; the rest lies in the store, where every process on it finds the same.
 */
export interface Directory {
  /** What the organisation is called, where the configuration says so. */
  organisation(): string | undefined;
  readonly users: Users;
  readonly teams: { list(): Promise<TeamView[]> };
  /** In the order they were given; none for somebody who is not in the directory. */
  teamsOf(userId: string): Promise<readonly string[]>;
  readonly keys: Keys;
  /** Hears of each key that was revoked, here or by another process, within a second. */
  onRevoked(listener: (userId: string, keyId: string) => void): void;
  close(): void;
}

export type { DeclaredPeople as Declared, TeamView, UserView };

export interface DirectoryOptions {
  readonly documents: SessionStore['documents'];
  readonly watch: SessionStore['watch'];
  readonly declared: () => DeclaredPeople;
  /** For tests that move time by hand. */
  readonly now?: () => number;
}

export function createDirectory(options: DirectoryOptions): Directory {
  const { documents, declared, now = Date.now } = options;
  const users = createUsers(documents, declared, now);
  const isUser = async (name: string) => (await users.get(name)) !== undefined;
  const keys = createKeys({ documents, isUser, now });
  const listeners = new Set<(userId: string, keyId: string) => void>();

  async function notifyRevoked(id: string): Promise<void> {
    if (listeners.size === 0) return;
    const key = await keys.get(id);
    if (key?.state !== 'revoked') return;
    for (const listener of listeners) listener(key.userId, id);
  }

  const stop = options.watch((change) => {
    if (change.kind === 'lost') keys.forgetCached();
    else if (change.kind !== 'document') return;
    else if (change.collection === userCollection) keys.forgetCached();
    else if (change.collection === keyCollection) {
      keys.forgetCached(change.key);
      // Whoever revoked it ends its sessions; this is for the case that it could not.
      void notifyRevoked(change.key).catch(() => {});
    }
  });

  return {
    organisation: () => declared().organisation,
    users,
    teams: { list: () => users.teams() },
    teamsOf: async (userId) => (await users.get(userId))?.teams ?? [],
    keys,
    onRevoked: (listener) => void listeners.add(listener),
    close() {
      stop();
      listeners.clear();
    },
  };
}
