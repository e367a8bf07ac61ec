import { SessionError } from './session-error.ts';

export type JsonValue = string | number | boolean | null | JsonValue[] | { [key: string]: JsonValue };

export interface StateEntry {
  readonly value: JsonValue;
  /** Rises with every write in the session. */
  readonly version: number;
  /** Milliseconds since 1970; null when it lasts as long as the session. */
  readonly expiresAt: number | null;
}

export interface StateWrite {
  /** Writes only when the entry has this version; 0 means that there must be none. Otherwise STATE_CONFLICT. */
  readonly expectedVersion?: number | undefined;
  /** Without it the entry lasts as long as the session. */
  readonly ttlSeconds?: number | undefined;
}

/** What the calls of a session keep for the next ones. It ends with the session, and no other session can reach it. */
export interface SessionState {
  get(key: string): Promise<StateEntry | undefined>;
  /** The version it has now. */
  set(key: string, value: JsonValue, options?: StateWrite): Promise<number>;
  /** Reads, changes and writes, again for as long as another call was faster. `change` must have no effects of its own. */
  update(
    key: string,
    change: (value: JsonValue | undefined) => JsonValue,
    options?: Pick<StateWrite, 'ttlSeconds'>,
  ): Promise<Pick<StateEntry, 'value' | 'version'>>;
  /** False when there was none. */
  delete(key: string, options?: Pick<StateWrite, 'expectedVersion'>): Promise<boolean>;
  /** Keys in the order of their characters. `next`, given as `after`, goes on where the page ends. */
  list(options?: {
    readonly prefix?: string | undefined;
    readonly after?: string | undefined;
    readonly limit?: number | undefined;
  }): Promise<{ readonly keys: readonly string[]; readonly next: string | null }>;
}

async function unavailable(): Promise<never> {
  throw new SessionError(
    'STATE_UNAVAILABLE',
    'this call keeps no state.',
    'The author of this server can change that with withSessions() of "ambit/server".',
  );
}

/** Everywhere but inside `withSessions()`: nothing is kept, and nothing pretends to be. */
export const noState: SessionState = Object.freeze({
  get: unavailable,
  set: unavailable,
  update: unavailable,
  delete: unavailable,
  list: unavailable,
});
