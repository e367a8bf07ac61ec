import { createHash } from 'node:crypto';
import { anonymousUser } from '../../identity/principal.ts';
import type { TrustLevel } from '../../rules/trust-level.ts';
import { type Document, type Documents, readAllDocuments } from '../../stores/documents.ts';
import type { JsonValue, SessionRecord } from '../../stores/record.ts';
import type { SetOptions, StateDeleted, StateKey, StateListOptions, StateWritten } from '../../stores/state.ts';
import { defaultStateLimits } from '../../stores/store.ts';
import { assertNoImitation } from '../check-fields.ts';
import type { SessionAuthor } from './messages.ts';

/** The workspace of one user. Another user in the same workspace has a state of their own. */
export interface StatePlace {
  readonly userId: string;
  readonly workspaceId: string;
  /**
   * Each trust level has a state of its own where sandboxed sessions must not reach direct ones: a value that a direct
   * session reads is a message to it. Undefined where all share one.
   */
  readonly trustLevel: TrustLevel | undefined;
}

/**
 * Finds the state that a session shares in a workspace. Undefined without a workspace, and for anonymous users, who are not
 * one person.
 */
export function findStatePlace(
  { userId, trustLevel }: Pick<SessionRecord, 'userId' | 'trustLevel'>,
  workspaceId: string | undefined,
  allowsToDirect: (workspaceId: string) => boolean,
): StatePlace | undefined {
  if (workspaceId === undefined || userId === anonymousUser) return undefined;
  return { userId, workspaceId, trustLevel: allowsToDirect(workspaceId) ? undefined : trustLevel };
}

/** An entry with the session that wrote it last. */
export interface AuthoredKey extends StateKey {
  readonly author: SessionAuthor;
}

export interface AuthoredEntry extends AuthoredKey {
  readonly value: JsonValue;
}

/** State that the sessions of a user in one workspace share. It stays when they end. */
export interface WorkspaceState {
  get(place: StatePlace, key: string): Promise<AuthoredEntry | undefined>;
  set(
    place: StatePlace,
    key: string,
    value: JsonValue,
    options: SetOptions & { readonly author: SessionAuthor },
  ): Promise<StateWritten>;
  list(place: StatePlace, options?: StateListOptions): Promise<{ keys: readonly AuthoredKey[]; next: string | null }>;
  delete(place: StatePlace, key: string, options?: { readonly expectedVersion?: number }): Promise<StateDeleted>;
  /** Deletes the state of a user in all workspaces. */
  forgetUser(userId: string): Promise<void>;
}

/** An entry as it is stored. */
interface StoredEntry {
  readonly author: SessionAuthor;
  readonly expiresAt: number | null;
  readonly value: JsonValue;
}

const { keys: maxKeys, valueBytes: maxValueBytes, totalBytes: maxTotalBytes } = defaultStateLimits;
const maxTries = 8;
/** A full state is searched for expired entries this often at most. */
const sweepEveryMs = 10_000;
const maxRemembered = 10_000;

export function createWorkspaceState(documents: Documents, now: () => number = Date.now): WorkspaceState {
  /** Reads an entry. One that has expired is deleted first, and then there is none. */
  async function readFresh(collection: string, key: string): Promise<AuthoredEntry | undefined> {
    const found = await documents.get(collection, key);
    const entry = found && parseEntry(found);
    if (found === undefined || entry === undefined || !isExpired(entry, now())) return entry;
    await documents.delete(collection, key, { expectedVersion: found.version });
    return undefined;
  }

  /** The times at which full collections were last searched. */
  const sweptAt = new Map<string, number>();

  async function deleteExpired(collection: string): Promise<boolean> {
    if (now() - (sweptAt.get(collection) ?? 0) < sweepEveryMs) return false;
    if (sweptAt.size >= maxRemembered) sweptAt.clear();
    sweptAt.set(collection, now());
    let deleted = false;
    for (const each of await readAllDocuments(documents, collection)) {
      if (!isExpired(parseEntry(each), now())) continue;
      const { outcome } = await documents.delete(collection, each.key, { expectedVersion: each.version });
      deleted ||= outcome === 'deleted';
    }
    return deleted;
  }

  return {
    get: (place, key) => readFresh(collectionOf(place), key),

    async set(place, key, value, { author, expectedVersion, ttlMs }) {
      const collection = collectionOf(place);
      const text = JSON.stringify(value);
      if (Buffer.byteLength(text) > maxValueBytes) return { outcome: 'full', limit: 'valueBytes' };
      assertNoImitation('key', key, 0);
      assertNoImitation('value', text);
      const stored: StoredEntry = { author, expiresAt: ttlMs === undefined ? null : now() + ttlMs, value };
      for (let tries = 0; ; tries++) {
        const version = (await readFresh(collection, key))?.version ?? 0;
        if (expectedVersion !== undefined && expectedVersion !== version) return { outcome: 'conflict', version };
        // Noted with each new entry, so that it is found when the user is removed: another process may have done that.
        if (version === 0) await documents.put(ownerCollectionOf(place.userId), collection, '1');
        const isFree = expectedVersion === undefined;
        const options = {
          ...(isFree ? {} : { expectedVersion: version }),
          maxDocuments: maxKeys,
          maxBytes: maxTotalBytes,
        };
        const put = await documents.put(collection, key, JSON.stringify(stored), options);
        if (put.outcome === 'written') return put;
        if (put.outcome === 'full' && !(await deleteExpired(collection)))
          return { outcome: 'full', limit: put.limit === 'totalBytes' ? 'totalBytes' : 'keys' };
        if (tries >= maxTries) return { outcome: 'conflict', version };
      }
    },

    async list(place, { prefix = '', after, limit = 100 } = {}) {
      const page = await documents.list(collectionOf(place), {
        prefix,
        limit,
        ...(after === undefined ? {} : { after }),
      });
      const entries = page.documents.map(parseEntry).filter((each) => !isExpired(each, now()));
      return { keys: entries.map(({ value: _, ...key }) => key), next: page.next };
    },

    async delete(place, key, { expectedVersion } = {}) {
      const collection = collectionOf(place);
      const version = (await readFresh(collection, key))?.version ?? 0;
      if (expectedVersion !== undefined && expectedVersion !== version) return { outcome: 'conflict', version };
      return documents.delete(collection, key, expectedVersion === undefined ? {} : { expectedVersion });
    },

    async forgetUser(userId) {
      const owner = ownerCollectionOf(userId);
      for (const { key: collection } of await readAllDocuments(documents, owner)) {
        for (const { key } of await readAllDocuments(documents, collection)) await documents.delete(collection, key);
        await documents.delete(owner, collection);
      }
    },
  };
}

/** A collection cannot be named after users and workspaces: their names have other characters. */
function collectionOf({ userId, workspaceId, trustLevel }: StatePlace): string {
  return `workspace-state-${hashText(JSON.stringify([userId, workspaceId, trustLevel ?? null]))}`;
}

const ownerCollectionOf = (userId: string): string => `workspace-states-of-${hashText(userId)}`;

const hashText = (text: string): string => createHash('sha256').update(text).digest('hex').slice(0, 40);

function parseEntry({ key, text, version }: Document): AuthoredEntry {
  const { author, expiresAt, value } = JSON.parse(text) as StoredEntry;
  const bytes = Buffer.byteLength(key) + Buffer.byteLength(JSON.stringify(value));
  return { key, version, bytes, expiresAt, author, value };
}

function isExpired({ expiresAt }: AuthoredKey, now: number): boolean {
  return expiresAt !== null && now >= expiresAt;
}
