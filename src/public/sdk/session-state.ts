import type { JsonValue } from '../../stores/record.ts';
import { SessionError } from './session-error.ts';

export type { JsonValue };

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

/** State that the calls of a session keep for later ones. It ends with the session, and no other session can read it. */
export interface SessionState {
  get(key: string): Promise<StateEntry | undefined>;
  /** Returns the new version. */
  set(key: string, value: JsonValue, options?: StateWrite): Promise<number>;
  /** Reads, changes and writes, and repeats if another call was faster. `change` must have no side effects. */
  update<T extends JsonValue = JsonValue>(
    key: string,
    change: (value: T | undefined) => T,
    options?: Pick<StateWrite, 'ttlSeconds'>,
  ): Promise<{ readonly value: T; readonly version: number }>;
  /** Returns false if there was none. */
  delete(key: string, options?: Pick<StateWrite, 'expectedVersion'>): Promise<boolean>;
  /** Lists keys in the order of their characters. Give `next` as `after` to get the next page. */
  list(options?: {
    readonly prefix?: string | undefined;
    readonly after?: string | undefined;
    readonly limit?: number | undefined;
  }): Promise<{ readonly keys: readonly string[]; readonly next: string | null }>;
}

async function throwUnavailable(): Promise<never> {
  throw new SessionError(
    'STATE_UNAVAILABLE',
    'no session state is available for this call.',
    'The author of this server can add it with withSessions() from "ambit-mcp/server".',
  );
}

/** The state outside of `withSessions()`: every method throws. */
export const noState: SessionState = Object.freeze({
  get: throwUnavailable,
  set: throwUnavailable,
  update: throwUnavailable,
  delete: throwUnavailable,
  list: throwUnavailable,
});
