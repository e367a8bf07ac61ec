import type { SessionStore } from '../stores/store.ts';
import { keyCollection } from './key-record.ts';
import { createKeys, type Keys } from './keys.ts';
import { createUsers, type DeclaredPeople, type TeamView, type Users, userCollection } from './users.ts';

/** The organisation, teams, users and keys, from the configuration as it is now and from the shared store. */
export interface Directory {
  organisation(): string | undefined;
  readonly users: Users;
  readonly teams: { list(): Promise<TeamView[]> };
  /** Lists the teams of a user in their order; none for an unknown user. */
  teamsOf(userId: string): Promise<readonly string[]>;
  readonly keys: Keys;
  /** Calls the listener within a second for each key that was revoked, by this process or another. */
  onRevoked(listener: (userId: string, keyId: string) => void): void;
  close(): void;
}

interface DirectoryOptions {
  readonly documents: SessionStore['documents'];
  readonly watch: SessionStore['watch'];
  readonly declared: () => DeclaredPeople;
  /** A clock for tests. */
  readonly now?: () => number;
}

export function createDirectory(options: DirectoryOptions): Directory {
  const { documents, declared, now = Date.now } = options;
  const users = createUsers(documents, declared, now);
  const keys = createKeys({ documents, isUser: async (name) => (await users.get(name)) !== undefined, now });
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
      // The process that revoked the key ends its sessions. This is for the case that it could not.
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
