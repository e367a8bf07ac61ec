import type { SessionRecord } from './record.ts';
import type { Gone } from './store.ts';

/** Bounds of one session, user or workspace. What is not given is not bounded. */
export interface Limits {
  readonly callsPerMinute?: number;
  /** How many of them may come at once; `callsPerMinute` unless told. */
  readonly burst?: number;
  readonly concurrentCalls?: number;
  /** Of a session: over its whole life. Of a user or workspace: in a day, by UTC. */
  readonly totalCalls?: number;
  /** As `totalCalls`. Checked before a call: the answer that crosses it still comes through. */
  readonly totalBytes?: number;
}

export type LimitName = Exclude<keyof Limits, 'burst'>;
export type Scope = 'session' | 'user' | 'workspace';
export const scopes: readonly Scope[] = ['session', 'user', 'workspace'];

export interface Admission {
  readonly id: string;
  /** The version the caller decided on; any other is answered `stale`. */
  readonly version?: number;
  /** How many calls this is: 1 unless told, 0 for what is not counted. */
  readonly calls?: number;
  readonly bytes?: number;
  /**
   * Takes a place until it is released, or for this long when nobody does (600,000 at most): a process that crashed
   * holds it no longer. While it is held the session does not expire for idleness. With `calls: 0` the place is not
   * counted among the concurrent calls.
   */
  readonly holdMs?: number;
  /** A session is always counted; user and workspace when limits are given for them. */
  readonly limits?: Readonly<Partial<Record<Scope, Limits>>>;
}

export type Verdict =
  | {
      readonly outcome: 'admitted';
      readonly version: number;
      readonly lastActiveAt: number;
      readonly expiresAt: number;
      /** For `renew` and `release`; null when no place was asked for. */
      readonly lease: string | null;
    }
  | { readonly outcome: 'stale'; readonly record: SessionRecord }
  | QuotaRefusal
  | Gone;

/** Nothing was counted. Of several limits in the way, the one that stays longest. */
export interface QuotaRefusal {
  readonly outcome: 'quota';
  readonly scope: Scope;
  readonly limit: LimitName;
  readonly allowed: number;
  /** Exactly when it will be possible if nobody else calls; null when time alone does not help. */
  readonly retryAfterMs: number | null;
}

export interface Use {
  readonly calls: number;
  readonly bytes: number;
  /** Counted calls under way. */
  readonly underWay: number;
}
