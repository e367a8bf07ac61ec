import type { Admission, Spent, StoredUse, Verdict } from './admission.ts';
import type { DocumentLimits, Documents } from './documents.ts';
import type { Change } from './feed.ts';
import type { SessionInboxes } from './inbox.ts';
import type { EndReason, NewSession, SessionChange, SessionRecord, Tombstone } from './record.ts';
import type { SessionMarks, SessionStateStore } from './state.ts';

/**
 * The contract of a session store. `describeSessionStore` tests these rules for every store:
 *
 * - Arguments and results are plain data and share no objects with the store.
 * - Expected results have an `outcome`. A promise rejects only with STORE_UNAVAILABLE, within two seconds, when the
 *   store cannot be reached, or with REQUEST_INVALID for invalid arguments.
 * - An answer is final: written data survives a crash as far as `capabilities.durable` says. Only counters and
 *   `lastActiveAt` may be behind, by a second at most.
 * - Time is the store's own. To every method a session is gone at the very instant it expires, swept or not.
 * - State, results, marks, messages and leases end with their session. Its remains stay until an hour after `endsAt`, so that its id is not
 *   used again and a late write does not bring it back.
 * - A store that was unavailable works again without help. Nothing is queued meanwhile.
 */
export interface SessionStore {
  readonly kind: string;
  readonly capabilities: StoreCapabilities;

  /** Checks the id, the name and the caps, and writes, in one step. */
  create(session: NewSession, caps?: Caps): Promise<Created>;
  get(id: string): Promise<SessionRecord | undefined>;
  /** Reads the remains of a session that is gone. */
  remains(id: string): Promise<Tombstone | undefined>;
  /** Writes only if the session still has that version. It does not count as use. */
  update(id: string, expectedVersion: number, change: SessionChange): Promise<Updated>;
  /** False when there was no live session to end. */
  end(id: string, reason?: EndReason): Promise<boolean>;
  /** Lists live sessions, the oldest first. A page may hold fewer than asked for; the last one has no `next`. */
  list(filter?: SessionFilter, page?: PageRequest): Promise<Page>;
  /**
   * Finds live sessions by id; else by name; else, from four characters on, by the beginning of the id. At most ten.
   */
  find(reference: string, filter?: SessionFilter): Promise<readonly SessionRecord[]>;

  /** Checks life, version and quota of a session in one round trip, and counts as use. */
  admit(request: Admission): Promise<Verdict>;
  /** Extends a lease, and counts as use. False when it ran out or the session is gone; then nothing is counted. */
  renew(id: string, lease: string, holdMs: number, spent?: Spent): Promise<boolean>;
  /** Releases a lease, and counts as use. Does nothing when the lease is lost, or was released before. */
  release(id: string, lease: string, spent?: Omit<Spent, 'places'>): Promise<void>;
  /** Reads the use of a live session so far, in one step. */
  usage(id: string): Promise<StoredUse | undefined>;

  readonly state: SessionStateStore;
  readonly marks: SessionMarks;
  readonly inboxes: SessionInboxes;
  /** Values that the children of a session return to it: the same as `state`, with other limits. */
  readonly results: SessionStateStore;
  readonly documents: Documents;

  /**
   * Reports, within a second, every session that is created, changed or ended, every message and result, and every
   * document that is written or deleted, by any process. Listeners ignore kinds that they do not know. The returned function stops it.
   */
  watch(listener: (change: Change) => void): () => void;
  /** Removes expired sessions and returns their number. A store does so by itself every second. */
  sweep(): Promise<number>;
  /** Resolves when the store is reachable. */
  ping(): Promise<void>;
  /** Finishes pending operations; afterwards everything else is refused. */
  close(): Promise<void>;
}

export interface StoreCapabilities {
  /** The durability of an answer: none, the end of the process, or as the server is configured. */
  readonly durable: 'no' | 'disk' | 'server';
  /** The reach of the sessions: this process, this machine, or everyone who reaches the server. */
  readonly shared: 'process' | 'machine' | 'network';
  /** The behaviour at `caps.inAll`: the session idle for longest is evicted, or the new one is refused. */
  readonly whenFull: 'evict' | 'refuse';
}

export interface Caps {
  /** The most live sessions of the session's user. */
  readonly perUser?: number;
  /** The most live children of the session's parent. */
  readonly perParent?: number;
  /** The most live sessions in the store. */
  readonly inAll?: number;
}

/** A session that is not available: missing or forgotten, expired, or ended by somebody. */
export type Gone =
  | { readonly outcome: 'missing' }
  | { readonly outcome: 'expired' }
  | { readonly outcome: 'ended'; readonly reason: EndReason };

export type Created =
  | { readonly outcome: 'created'; readonly record: SessionRecord }
  /** The id was used before, or a live session of this user has the name. */
  | { readonly outcome: 'exists'; readonly what: 'id' | 'name' }
  | { readonly outcome: 'full'; readonly cap: keyof Caps };

export type Updated =
  | { readonly outcome: 'updated'; readonly record: SessionRecord }
  /** Another change was first; the record as it is now. */
  | { readonly outcome: 'stale'; readonly record: SessionRecord }
  | Gone;

/** A session must match all fields that are given. */
export interface SessionFilter {
  readonly userId?: string;
  readonly workspaceId?: string;
  readonly parentId?: string;
}

export interface PageRequest {
  /** `next` of the page before. */
  readonly after?: string;
  /** From 1 to 1000; 100 by default. */
  readonly limit?: number;
}

export interface Page {
  readonly sessions: readonly SessionRecord[];
  readonly next: string | null;
}

export interface StoreOptions {
  /** A clock for tests, which also sweep by hand; the store's own clock by default. */
  readonly now?: () => number;
  readonly stateLimits?: Partial<StateLimits>;
  readonly resultLimits?: Partial<StateLimits>;
  readonly documentLimits?: Partial<DocumentLimits>;
  /** The time after which an operation fails with STORE_UNAVAILABLE; 2000 by default. */
  readonly patienceMs?: number;
}

export interface StateLimits {
  readonly valueBytes: number;
  readonly keys: number;
  /** Keys and values of one session together. */
  readonly totalBytes: number;
}

export const defaultStateLimits: StateLimits = { valueBytes: 65_536, keys: 1000, totalBytes: 1_048_576 };
/** A result may come with the schema that it has to match. */
export const defaultResultLimits: StateLimits = { valueBytes: 131_072, keys: 256, totalBytes: 4_194_304 };
export const defaultPatienceMs = 2000;
