import type { JsonValue } from './record.ts';
import type { Gone, StateLimits } from './store.ts';

/**
 * State that the calls of a session keep for later calls. Reading or writing it does not count as use of the session.
 */
export interface SessionStateStore {
  get(id: string, key: string): Promise<StoredStateEntry | undefined>;
  /** With `expectedVersion` it writes only if the entry has that version; 0 means that there is no entry. */
  set(id: string, key: string, value: JsonValue, options?: SetOptions): Promise<StateWritten>;
  /** Lists sorted keys without values. */
  list(id: string, options?: StateListOptions): Promise<StatePage>;
  delete(id: string, key: string, options?: { readonly expectedVersion?: number }): Promise<StateDeleted>;
}

export interface StoredStateEntry extends StateKey {
  readonly value: JsonValue;
}

export interface StateKey {
  readonly key: string;
  /** Rises with every write in the session, so an entry that is deleted and written again has a new version. */
  readonly version: number;
  /** The size of key and value as JSON. */
  readonly bytes: number;
  readonly expiresAt: number | null;
}

export interface SetOptions {
  readonly expectedVersion?: number;
  /** Without it the entry lasts as long as the session. */
  readonly ttlMs?: number;
}

export type StateWritten =
  | { readonly outcome: 'written'; readonly version: number }
  /** The current version; 0 when there is no entry. */
  | { readonly outcome: 'conflict'; readonly version: number }
  | { readonly outcome: 'full'; readonly limit: keyof StateLimits }
  | Gone;

export type StateDeleted =
  | { readonly outcome: 'deleted' }
  | { readonly outcome: 'absent' }
  | { readonly outcome: 'conflict'; readonly version: number }
  | Gone;

export interface StateListOptions {
  readonly prefix?: string;
  readonly after?: string;
  readonly limit?: number;
}

export interface StatePage {
  readonly keys: readonly StateKey[];
  readonly next: string | null;
}

/** Small notes of Ambit about a session, such as what was delivered: at most 1000, of 4096 bytes each. */
export interface SessionMarks {
  /** Sets a mark only if there is none; of several callers, one gets `put`. */
  put(id: string, key: string, value?: string): Promise<MarkPut>;
  get(id: string, key: string): Promise<string | undefined>;
  /** False when it was not there. */
  delete(id: string, key: string): Promise<boolean>;
}

export type MarkPut =
  | { readonly outcome: 'put' }
  | { readonly outcome: 'present'; readonly value: string }
  | { readonly outcome: 'full' }
  | Gone;

export const maxMarks = 1000;

/** Cuts one page of keys, in the same way for every store. */
export function cutKeyPage(all: readonly StateKey[], options: StateListOptions): StatePage {
  const { prefix = '', after, limit = 100 } = options;
  const fitting = all
    .filter(({ key }) => key.startsWith(prefix) && (after === undefined || key > after))
    .sort((a, b) => (a.key < b.key ? -1 : 1));
  const keys = fitting.slice(0, limit);
  return { keys, next: fitting.length > limit ? (keys.at(-1)?.key ?? null) : null };
}
