import { AmbitError } from '../../errors.ts';
import type { Change } from '../../stores/feed.ts';
import type { SessionStore } from '../../stores/store.ts';
import { credentialKeyPrefix } from './credential-target.ts';

export interface CachedDocument<T> {
  readonly key: string;
  readonly version: number;
  /** Undefined when the stored text is not what was written. */
  readonly sealed: T | undefined;
}

/** A copy of one collection of the store, still sealed, at most a second old. */
export interface DocumentCache<T> {
  /** Throws STORE_UNAVAILABLE while the copy is not up to date. */
  listUnder(prefix: string): readonly CachedDocument<T>[];
  listAll(): readonly CachedDocument<T>[];
  /** Reads one document again; resolves when the listeners have handled the change. */
  refresh(key: string): Promise<void>;
  close(): void;
}

/** Hears of changed documents of one server. `concerns` is true for the users whose documents they are. */
export type AuthChangeListener = (concerns: MatchesUser, server: string) => Promise<void>;

/** True for the users and servers that a change is about. */
export type MatchesUser = (userId: string, server: string) => boolean;

const retryMs = 500;

export async function openDocumentCache<T>(
  store: SessionStore,
  collection: string,
  read: (key: string, text: string) => T | undefined,
  changed: (keyPrefix: string) => Promise<void>,
): Promise<DocumentCache<T>> {
  /** The documents by the prefix of their keys, up to the server. */
  const documents = new Map<string, Map<string, CachedDocument<T>>>();
  let isLoaded = false;
  let isClosed = false;
  let retry: NodeJS.Timeout | undefined;
  // One read at a time, so that an older answer never comes after a newer one.
  let queue: Promise<void> = Promise.resolve();

  function update(key: string, found: { readonly text: string; readonly version: number } | undefined): boolean {
    const prefix = prefixOf(key);
    const own = documents.get(prefix) ?? new Map<string, CachedDocument<T>>();
    if (own.get(key)?.version === found?.version) return false;
    if (found === undefined) own.delete(key);
    else own.set(key, { key, version: found.version, sealed: read(key, found.text) });
    if (own.size === 0) documents.delete(prefix);
    else documents.set(prefix, own);
    return true;
  }

  /** Reads all documents and returns the prefixes of those that have changed. */
  async function reload(): Promise<string[]> {
    const stored = new Map<string, { readonly text: string; readonly version: number }>();
    for (let after: string | null | undefined; after !== null; ) {
      const page = await store.documents.list(collection, { limit: 1000, ...(after === undefined ? {} : { after }) });
      for (const document of page.documents) stored.set(document.key, document);
      after = page.next;
    }
    const keys = new Set([...stored.keys(), ...[...documents.values()].flatMap((own) => [...own.keys()])]);
    const changedPrefixes = new Set([...keys].filter((key) => update(key, stored.get(key))).map(prefixOf));
    isLoaded = true;
    return [...changedPrefixes];
  }

  async function enqueue(work: () => Promise<string[]>): Promise<void> {
    const looked = queue.then(() => (isClosed ? [] : work()));
    queue = looked.then(
      () => {},
      () => {
        // Requests are refused until the documents are loaded again.
        isLoaded = false;
        clearTimeout(retry);
        if (!isClosed) retry = setTimeout(() => void enqueue(reload).catch(() => {}), retryMs).unref();
      },
    );
    // Listeners may take long, where processes end slowly. The queue does not wait for them.
    await Promise.all((await looked).map(changed));
  }

  function refresh(key: string): Promise<void> {
    return enqueue(async () => {
      if (!isLoaded) return reload();
      return update(key, await store.documents.get(collection, key)) ? [prefixOf(key)] : [];
    });
  }

  const stop = store.watch((change: Change) => {
    if (change.kind === 'lost') void enqueue(reload).catch(() => {});
    else if (change.kind === 'document' && change.collection === collection) void refresh(change.key).catch(() => {});
  });
  await enqueue(reload).catch(() => {});

  function assertKnown(): void {
    if (isLoaded) return;
    throw new AmbitError('STORE_UNAVAILABLE', { what: 'The list of credentials is not available.' });
  }

  return {
    listUnder(prefix) {
      assertKnown();
      return [...(documents.get(prefix)?.values() ?? [])];
    },
    listAll() {
      assertKnown();
      return [...documents.values()].flatMap((own) => [...own.values()]);
    },
    refresh,
    close() {
      isClosed = true;
      clearTimeout(retry);
      stop();
    },
  };
}

/** Creates the listeners of a cache. `notify` takes the prefix of the changed keys, and waits for the listeners. */
export function createChangeListeners() {
  const listeners = new Set<AuthChangeListener>();
  return {
    add: (listener: AuthChangeListener): void => void listeners.add(listener),
    async notify(prefix: string): Promise<void> {
      const concerns: MatchesUser = (userId, server) => credentialKeyPrefix(userId, server) === prefix;
      await Promise.all([...listeners].map((listener) => listener(concerns, prefix.split('/')[1] ?? '')));
    },
  };
}

function prefixOf(key: string): string {
  return key
    .split('/', 2)
    .map((part) => `${part}/`)
    .join('');
}
