import type { JsonValue } from './record.ts';
import type { Gone, StateLimits } from './store.ts';

/** What the calls of a session keep for the next ones. Reading or writing it does not count as use of the session. */
export interface SessionState {
  get(id: string, key: string): Promise<StateEntry | undefined>;
  /** With `expectedVersion`, only when the entry has it; 0 means that there must be none. */
  set(id: string, key: string, value: JsonValue, options?: SetOptions): Promise<StateWritten>;
  /** Keys in the order of their characters, without values. */
  list(id: string, options?: StateListOptions): Promise<StatePage>;
  delete(id: string, key: string, options?: { readonly expectedVersion?: number }): Promise<StateDeleted>;
}

export interface StateEntry extends StateKey {
  readonly value: JsonValue;
}

export interface StateKey {
  readonly key: string;
  /** Rises with every write in the session: an entry deleted and written again has another one. */
  readonly version: number;
  /** Of key and value as JSON. */
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
  /** The version there is; 0 for none. */
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

/** Small facts Ambit keeps about a session, such as what was delivered: at most 1000 of 4096 bytes. */
export interface SessionMarks {
  /** Sets it only when it is not there: of several who try, one is told `put`. */
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

export const mostMarks = 1000;

/** One page of keys, cut the same way for every store. */
export function cutKeyPage(all: readonly StateKey[], options: StateListOptions): StatePage {
  const { prefix = '', after, limit = 100 } = options;
  const fitting = all
    .filter(({ key }) => key.startsWith(prefix) && (after === undefined || key > after))
    .sort((a, b) => (a.key < b.key ? -1 : 1));
  const keys = fitting.slice(0, limit);
  return { keys, next: fitting.length > limit ? (keys.at(-1)?.key ?? null) : null };
}
