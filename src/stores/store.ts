import type { Admission, Spent, Use, Verdict } from './admission.ts';
import type { DocumentLimits, Documents } from './documents.ts';
import type { Change } from './feed.ts';
import type { EndReason, NewSession, Remains, SessionChange, SessionRecord } from './record.ts';
import type { SessionMarks, SessionState } from './state.ts';

/**
 * Where sessions are kept. The rules that hold for every store, and that `describeSessionStore` proves:
 *
 * - Plain data in, plain data out: what comes back shares nothing with what was given.
 * - What can be expected is an answer with an `outcome`. A promise rejects only with STORE_UNAVAILABLE, within two
 *   seconds, when the store cannot be asked; or with REQUEST_INVALID for arguments no store could take.
 * - An answer is final: what was answered as written is there after a crash, as far as `capabilities.durable` says.
 *   Counters and `lastActiveAt` alone may be behind, by a second at most.
 * - Time is the store's own. A session is gone at the very instant it expires, swept or not, to every method.
 * - Whatever a session had is gone with it: state, marks, places among the calls under way. Its remains stay until an
 *   hour after `endsAt`, so that its id is not given again and nothing written late brings it back.
 * - A store that went away and came back is simply there again. Nothing is kept to be sent later.
 */
export interface SessionStore {
  readonly kind: string;
  readonly capabilities: StoreCapabilities;

  /** Checks the id, the name and the caps, and writes, in one step. */
  create(session: NewSession, caps?: Caps): Promise<Created>;
  /** A live session. */
  get(id: string): Promise<SessionRecord | undefined>;
  /** What is left of a session that is gone. */
  remains(id: string): Promise<Remains | undefined>;
  /** Writes only when the session still has that version. It does not count as use. */
  update(id: string, expectedVersion: number, change: SessionChange): Promise<Updated>;
  /** False when there was no live session to end. */
  end(id: string, reason?: EndReason): Promise<boolean>;
  /** Live sessions, the oldest first. A page may hold fewer than asked for; the last one has no `next`. */
  list(filter?: SessionFilter, page?: PageRequest): Promise<Page>;
  /**
   * The live session with that id; else those with that name; else, from four characters on, those whose id begins so.
   * At most ten: one is an answer, more are ambiguous.
   */
  find(reference: string, filter?: SessionFilter): Promise<readonly SessionRecord[]>;

  /** The one round trip of a request: is it live, is it as the caller believes, is there quota; then counts as use. */
  admit(request: Admission): Promise<Verdict>;
  /**
   * Keeps a place among the calls under way for longer, and counts as use. False when it is lost: it ran out, or the
   * session is gone. Then nothing of what was spent is counted.
   */
  renew(id: string, lease: string, holdMs: number, spent?: Spent): Promise<boolean>;
  /** Gives the place back, and counts as use. When it is lost, and so a second time, this does nothing. */
  release(id: string, lease: string, spent?: Omit<Spent, 'places'>): Promise<void>;
  /** What a live session has used so far. */
  usage(id: string): Promise<Use | undefined>;

  readonly state: SessionState;
  readonly marks: SessionMarks;
  readonly documents: Documents;

  /**
   * Tells of every session created, changed or ended through this data, and of every document written or deleted, by
   * this process or another, within a second. Kinds that a listener does not know are none of its business: there may
   * be more some day. Call what is returned to stop it.
   */
  watch(listener: (change: Change) => void): () => void;
  /** Buries what has expired and answers how much that was. A store does it by itself every second. */
  sweep(): Promise<number>;
  /** Resolves when the store can be asked. */
  ping(): Promise<void>;
  /** Finishes what was asked before; afterwards everything else is refused. */
  close(): Promise<void>;
}

export interface StoreCapabilities {
  /** What an answer survives: nothing; the end of the process; whatever the server behind it is set up for. */
  readonly durable: 'no' | 'disk' | 'server';
  /** Who sees the same sessions: this process, all on this machine, all that reach the server. */
  readonly shared: 'process' | 'machine' | 'network';
  /** At `caps.inAll`: the idlest session without a call under way makes room, or the new one is refused. */
  readonly whenFull: 'evict' | 'refuse';
}

export interface Caps {
  /** Most live sessions of the session's user. */
  readonly perUser?: number;
  /** Most live sessions in the store. */
  readonly inAll?: number;
}

/** A session that cannot be had: never there or long forgotten, run out, or ended by someone. */
export type Gone =
  | { readonly outcome: 'missing' }
  | { readonly outcome: 'expired' }
  | { readonly outcome: 'ended'; readonly reason: EndReason };

export type Created =
  | { readonly outcome: 'created'; readonly record: SessionRecord }
  /** The id was given before, or a live session of this user has the name. */
  | { readonly outcome: 'exists'; readonly what: 'id' | 'name' }
  | { readonly outcome: 'full'; readonly cap: keyof Caps };

export type Updated =
  | { readonly outcome: 'updated'; readonly record: SessionRecord }
  /** Somebody else was faster; the record as it is now. */
  | { readonly outcome: 'stale'; readonly record: SessionRecord }
  | Gone;

/** All that are given must fit. */
export interface SessionFilter {
  readonly userId?: string;
  readonly workspaceId?: string;
  readonly parentId?: string;
}

export interface PageRequest {
  /** `next` of the page before. */
  readonly after?: string;
  /** From 1 to 1000; 100 unless told. */
  readonly limit?: number;
}

export interface Page {
  readonly sessions: readonly SessionRecord[];
  readonly next: string | null;
}

export interface StoreOptions {
  /** For tests that move time by hand, and sweep by hand too; else the store's own clock. */
  readonly now?: () => number;
  readonly stateLimits?: Partial<StateLimits>;
  readonly documentLimits?: Partial<DocumentLimits>;
  /** How long an operation may take before it is STORE_UNAVAILABLE; 2000 unless told. */
  readonly patienceMs?: number;
}

export interface StateLimits {
  readonly valueBytes: number;
  readonly keys: number;
  /** Keys and values of one session together. */
  readonly totalBytes: number;
}

export const defaultStateLimits: StateLimits = { valueBytes: 65_536, keys: 1000, totalBytes: 1_048_576 };
export const defaultPatienceMs = 2000;
