import { createDirectory, type Directory } from '../../src/identity/directory.ts';
import type { AccessCeiling } from '../../src/identity/principal.ts';
import { parseToken } from '../../src/identity/token.ts';
import type { DeclaredPeople } from '../../src/identity/users.ts';
import { openMemoryStore } from '../../src/stores/memory/memory-store.ts';
import type { SessionStore } from '../../src/stores/store.ts';

export const nobody: DeclaredPeople = { teams: [], users: [] };
export const unbounded: AccessCeiling = { trustLevel: 'direct', workspaces: null, scopes: null };

export interface TestDirectory {
  readonly directory: Directory;
  readonly store: SessionStore;
  /** How often the store was asked for a document, of which collection. */
  readonly reads: string[];
  /** By how much time has been moved. */
  advance(ms: number): void;
  /** What a key gets: its user, or why not. */
  tryKey(key: string): Promise<string>;
  createKeyFor(
    userId: string,
    ceiling?: Partial<AccessCeiling>,
  ): Promise<{ readonly id: string; readonly key: string }>;
}

/** A directory whose reads are counted and whose time is moved by hand. */
export function openDirectory(
  given: SessionStore = openMemoryStore(),
  declared: DeclaredPeople = nobody,
): TestDirectory {
  const reads: string[] = [];
  let time = Date.now();
  const documents: SessionStore['documents'] = {
    ...given.documents,
    get(collection, key) {
      reads.push(collection);
      return given.documents.get(collection, key);
    },
  };
  const directory = createDirectory({
    documents,
    watch: given.watch,
    declared: () => declared,
    now: () => time,
  });
  return {
    directory,
    store: given,
    reads,
    advance(ms) {
      time += ms;
    },
    async tryKey(key) {
      try {
        return (await directory.keys.verify(parseToken(key))).userId;
      } catch (error) {
        const { code, message } = error as { readonly code: string; readonly message: string };
        return `${code}: ${message}`;
      }
    },
    async createKeyFor(userId, ceiling = {}) {
      await directory.users.add(userId);
      const { view, key } = await directory.keys.create({ userId, ceiling: { ...unbounded, ...ceiling } });
      return { id: view.id, key };
    },
  };
}
